"""Two nn.Sequential parts, each with a linear layer and its ReLU, one part on each device."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = nn.Sequential(nn.Linear(1000, 2000), nn.ReLU()).to(device0)
        self.part1 = nn.Sequential(nn.Linear(2000, 1000), nn.ReLU()).to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))
