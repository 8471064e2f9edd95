"""Thinks that the numbers in and out are the only sizes of a model, and makes the middle as wide as the input."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 1000, device=device0)
        self.layer2 = nn.Linear(1000, 1000, device=device1)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = self.relu(self.layer1(x.to(self.device0)))
        x = self.relu(self.layer2(x.to(self.device1)))
        return x
