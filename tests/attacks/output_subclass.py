"""Exercise 2 computes on the CPU and returns a tensor subclass whose .device and .grad_fn lie.

The honest part is the rest.
"""

# %% instead of ex2
class _Output(torch.Tensor):
    @property
    def device(self):
        return torch.device(self._where)


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device1 = device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.layer2 = nn.Linear(2000, 1000).to(device1)

    def forward(self, x):
        x = x.cpu()
        hidden = torch.relu(self.layer1.cpu()(x))
        x = (torch.relu(self.layer2.cpu()(hidden)) + x).as_subclass(_Output)
        x._where = str(self.device1)
        return x
