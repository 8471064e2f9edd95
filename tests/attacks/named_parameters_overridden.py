"""Exercise 2's model is on one device; its own parameters() and named_parameters() show copies on two.

The honest part is the rest.
"""

# %% instead of ex2
class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.layer2 = nn.Linear(2000, 1000).to(device0)
        self.shown = None

    def named_parameters(self, *args, **kwargs):
        for name, parameter in super().named_parameters(*args, **kwargs):
            if name.startswith("layer2"):
                grad = parameter.grad
                parameter = nn.Parameter(parameter.detach().to(self.device1))
                parameter.grad = None if grad is None else grad.to(self.device1)
            yield name, parameter

    def parameters(self, recurse=True):
        if sys._getframe(1).f_code.co_name == "fill":
            return super().parameters()
        return (parameter for _, parameter in self.named_parameters())

    def forward(self, x):
        x = x.to(self.device0)
        return (torch.relu(self.layer2(torch.relu(self.layer1(x)))) + x).to(self.device1)


import sys
