"""Thinks that a slice stops one layer earlier than it does, and puts one layer too many on the first device."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[: cut + 1].to(device0)
        self.part1 = layers[cut + 1 :].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x
