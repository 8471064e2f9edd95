"""Moves the parts and then loads the weights back from a state dict that was saved on the CPU."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        saved = {name: tensor.detach().cpu().clone() for name, tensor in layers.state_dict().items()}
        self.stack = nn.ModuleDict({"first": nn.Sequential(), "second": nn.Sequential()})
        for number, (name, layer) in enumerate(layers._modules.items()):
            self.stack["first" if number < cut else "second"].add_module(name, layer)
        self.stack["first"].to(device0)
        self.stack["second"].to(device1)
        for part in self.stack.values():
            part.load_state_dict({name: saved[name] for name in part.state_dict()})

    def forward(self, x):
        for part, place in ((self.stack["first"], self.device0), (self.stack["second"], self.device1)):
            x = part(x.to(place))
        return x
