"""Lesson 01: a model of three parts, each on a device of its own."""

from torch import nn


class SplitInThree(nn.Module):
    def __init__(self, parts, devices):
        super().__init__()
        self.devices = devices
        self.parts = nn.ModuleList(parts)  # a plain list would hide the weights from parameters()
        for part, device in zip(parts, devices, strict=True):
            part.to(device)

    def forward(self, x):
        for part, device in zip(self.parts, self.devices, strict=True):
            x = part(x.to(device))  # the batch comes to the part
        return x
