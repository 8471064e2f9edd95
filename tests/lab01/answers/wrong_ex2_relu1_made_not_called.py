"""Thinks that a layer which was made in __init__ takes part by itself, and never calls the first ReLU."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.layer1(x.to(self.device0))
        x = self.layer2(x.to(self.device1))
        x = self.relu2(x)
        return x
