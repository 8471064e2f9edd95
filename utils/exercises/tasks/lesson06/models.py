"""Small models for lesson 06's second task: a whole one, and one on two devices that differs from it as it is told."""

from torch import nn

from utils.exercises.facts.probes import fill


class Small(nn.Module):
    """A convolution and a BatchNorm on `device0`, a linear layer on `device1`; images of shape (n, 3, 4, 4).

    `change`: "higher" or "lower" (one output by 0.5), "gradients" (those before the second device are halved),
    "buffers" (running statistics move faster), "order" (parts registered the other way round).
    """

    first: nn.Conv2d
    norm: nn.BatchNorm2d
    second: nn.Linear

    def __init__(self, device0, device1, change=""):
        super().__init__()
        self.device0, self.device1, self.change = device0, device1, change
        parts = [("first", nn.Conv2d(3, 4, 3)), ("norm", nn.BatchNorm2d(4)), ("second", nn.Linear(16, 5))]
        for name, part in reversed(parts) if change == "order" else parts:
            self.add_module(name, part)
        fill(self, seed=1)
        self.second.bias.data[1] += {"higher": 0.5, "lower": -0.5}.get(change, 0)
        if change == "buffers":
            self.norm.momentum = 0.5
        self.to(device0)
        self.second.to(device1)

    def forward(self, x):
        if self.device0 != self.device1:  # as SplitResNet50: from any device
            x = x.to(self.device0)
        x = self.norm(self.first(x)).relu().to(self.device1)
        if self.change == "gradients":
            x = (x + x.detach()) / 2
        return self.second(x.flatten(1))
