"""Thinks that layers can be made where they are used, so every call has new weights and the model has no parameters."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1

    def forward(self, x):
        layer1 = nn.Linear(1000, 2000).to(self.device0)
        layer2 = nn.Linear(2000, 1000).to(self.device1)
        x = torch.relu(layer1(x.to(self.device0)))
        x = torch.relu(layer2(x.to(self.device1)))
        return x
