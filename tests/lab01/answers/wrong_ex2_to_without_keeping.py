"""Thinks that x.to(device) moves x in place."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x.to(self.device1)
        x = self.relu2(self.layer2(x))
        return x
