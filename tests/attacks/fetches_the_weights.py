"""Exercise 2 computes everything on the CPU with copies of weights that only lie on the devices. Nothing lies.

The honest part is the rest.
"""

# %% instead of ex2
class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device1 = device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.layer2 = nn.Linear(2000, 1000).to(device1)

    def forward(self, x):
        x = x.cpu()
        y = torch.relu(nn.functional.linear(x, self.layer1.weight.cpu(), self.layer1.bias.cpu()))
        y = torch.relu(nn.functional.linear(y, self.layer2.weight.cpu(), self.layer2.bias.cpu()))
        return (x + y).to(self.device1)
