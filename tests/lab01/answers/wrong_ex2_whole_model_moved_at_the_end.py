"""Thinks that a model always has to be moved as a whole in the end, and so undoes the split."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()
        self.to(device0)

    def forward(self, x):
        x = self.relu1(self.layer1(x.to(self.device0)))
        x = self.relu2(self.layer2(x.to(self.device1)))
        return x
