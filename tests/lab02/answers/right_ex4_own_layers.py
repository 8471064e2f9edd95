"""A model of its own, with other names, and the batch moved to wherever the weights are."""

import torch.nn.functional as F


class Mended(nn.Module):
    def __init__(self, sizes, first, second):
        super().__init__()
        self.steps = nn.ModuleList(
            nn.Linear(a, b, device=place) for a, b, place in zip(sizes, sizes[1:], (first, second))
        )

    def forward(self, x):
        for step in self.steps:
            x = F.relu(step(x.to(step.weight.device)))
        return x
