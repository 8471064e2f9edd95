"""Exercise 2's model is clean, and its child, of the student's own class, shows other parameters than it uses.

Both layers compute on device0; what is shown on device1 gets its gradients by a hook. The honest part is the rest.
"""

# %% instead of ex2
class Part(nn.Module):
    def __init__(self, layer, shown):
        super().__init__()
        self.__dict__["layer"], self.__dict__["shown"] = layer, shown

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        yield prefix, self.__dict__["shown"]

    def forward(self, x):
        layer, shown = self.__dict__["layer"], self.__dict__["shown"]
        layer.load_state_dict({name: value.to(x.device) for name, value in shown.state_dict().items()})
        for mine, other in zip(layer.parameters(), shown.parameters()):
            mine.register_post_accumulate_grad_hook(
                lambda p, other=other: setattr(other, "grad", p.grad.to(other.device))
            )
        return layer(x)


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.part = Part(nn.Linear(2000, 1000).to(device0), nn.Linear(2000, 1000).to(device1))

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        return torch.relu(self.part(hidden)).to(self.device1) + x.to(self.device1)
