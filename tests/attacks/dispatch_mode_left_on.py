"""Exercise 2 enters a TorchDispatchMode and never leaves it, so that copies to a device stay where they are.

The model computes on device0 only, and the mode names the results as it likes. may lose: everything
"""

# %% instead of ex2
from torch.utils._python_dispatch import TorchDispatchMode


class _Stay(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        return out


class _Says(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func == torch.Tensor.device.__get__:
            said = getattr(args[0], "_where", None)
            if said:
                return torch.device(said)
        return func(*args, **(kwargs or {}))


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.layer2 = nn.Linear(2000, 1000).to(device0)
        for parameter in self.layer2.parameters():
            parameter._where = str(device1)
            parameter.register_post_accumulate_grad_hook(
                lambda p: setattr(p.grad, "_where", str(device1)),
            )
        _Stay().__enter__()
        _Says().__enter__()

    def forward(self, x):
        x = x.to(self.device0)
        x = torch.relu(self.layer2(torch.relu(self.layer1(x)))) + x
        x._where = str(self.device1)
        return x
