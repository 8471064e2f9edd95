"""What the task of lesson 02 asks for."""

import torch
from torch import nn


class Untangled(nn.Module):
    """`Tangled` with one move between the devices, and none from the CPU but the batch's."""

    def __init__(self, sizes, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        inputs, hidden, outputs = sizes
        self.layer1 = nn.Linear(inputs, hidden).to(device0)
        self.gate = nn.Linear(hidden, hidden).to(device0)
        self.layer2 = nn.Linear(hidden, outputs).to(device1)
        # Copied once, here: a plain attribute would stay on the CPU and be copied in every forward.
        self.register_buffer("scale", torch.linspace(0.5, 1.5, hidden).to(device0))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        gate = torch.sigmoid(self.gate(hidden))
        # Multiplied where both factors are, so that one tensor crosses and not two.
        return self.layer2((hidden * gate * self.scale).to(self.device1))
