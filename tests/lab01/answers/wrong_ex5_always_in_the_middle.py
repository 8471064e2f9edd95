"""Thinks that splitting in two means two halves, and does not use cut."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        half = len(layers) // 2
        self.part0 = layers[:half].to(device0)
        self.part1 = layers[half:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x
