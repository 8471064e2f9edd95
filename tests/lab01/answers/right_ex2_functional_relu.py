"""Uses F.relu in place of ReLU modules and the device argument of nn.Linear, and prints where the batch is."""

import torch.nn.functional as F


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000, device=device0)
        self.layer2 = nn.Linear(2000, 1000, device=device1)

    def forward(self, x):
        print("the batch arrives on", x.device)
        hidden = F.relu(self.layer1(x.to(self.device0)))
        print("hidden is on", hidden.device)
        return F.relu(self.layer2(hidden.to(self.device1)))
