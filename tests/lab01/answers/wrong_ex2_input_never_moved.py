"""Thinks that a layer fetches its input from wherever it is, so the batch is not moved to the first device."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.relu1(self.layer1(x))
        x = x.to(self.device1)
        return self.relu2(self.layer2(x))
