"""Thinks that an activation belongs only between layers, so the last ReLU is left out."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)

    def forward(self, x):
        x = self.relu(self.layer1(x.to(self.device0)))
        return self.layer2(x.to(self.device1))
