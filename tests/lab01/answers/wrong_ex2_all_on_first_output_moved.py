"""Thinks that a model is split when its output is on the second device, but computes all on the first."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000)
        self.relu2 = nn.ReLU()
        self.to(device0)

    def forward(self, x):
        x = x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x = self.relu2(self.layer2(x))
        return x.to(self.device1)
