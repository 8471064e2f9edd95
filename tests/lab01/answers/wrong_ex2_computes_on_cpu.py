"""Thinks that moving the data is enough to compute on a device, while the layers stay on the CPU."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.relu1(self.layer1(x)).to(self.device0)
        x = x.to("cpu")  # without this line it raised
        x = self.relu2(self.layer2(x)).to(self.device1)
        return x
