"""Thinks that a model has to be moved as a whole in the end, so that all its layers are on the second device."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)
        self.to(device1)  # where the output is

    def forward(self, x):
        x = x.to(self.device1)
        x = self.part0(x)
        x = self.part1(x)
        return x
