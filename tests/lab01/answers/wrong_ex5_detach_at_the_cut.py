"""Thinks that the second device needs a tensor without history, so the first part gets no gradient."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = x.detach().to(self.device1)
        return self.part1(x)
