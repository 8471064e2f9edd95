"""Keeps all the layers in one nn.ModuleList and moves the batch when the loop comes to the cut."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.cut = cut
        self.steps = nn.ModuleList()
        for number, layer in enumerate(layers):
            self.steps.append(layer.to(device0) if number < cut else layer.to(device1))

    def forward(self, x):
        x = x.to(self.device0)
        for number, layer in enumerate(self.steps):
            if number == self.cut:
                x = x.to(self.device1)
            x = layer(x)
        return x
