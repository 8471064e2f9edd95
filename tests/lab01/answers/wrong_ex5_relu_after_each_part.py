"""Thinks that every part ends with a ReLU, as in SimpleMPModel, and adds one after each part."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = torch.relu(self.part0(x.to(self.device0)))
        x = torch.relu(self.part1(x.to(self.device1)))
        return x
