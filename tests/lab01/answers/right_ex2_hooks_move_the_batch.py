"""Lets a hook in front of each part move the batch, so that forward is one plain call. The ReLUs work in place."""


def bring_to(device):
    def hook(module, inputs):
        return tuple(tensor.to(device) for tensor in inputs)

    return hook


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.net = nn.Sequential()
        self.net.add_module("layer1", nn.Linear(1000, 2000, device=device0))
        self.net.add_module("relu1", nn.ReLU(inplace=True))
        self.net.add_module("layer2", nn.Linear(2000, 1000, device=device1))
        self.net.add_module("relu2", nn.ReLU(inplace=True))
        self.net.layer1.register_forward_pre_hook(bring_to(device0))
        self.net.layer2.register_forward_pre_hook(bring_to(device1))

    def forward(self, x):
        return self.net(x)
