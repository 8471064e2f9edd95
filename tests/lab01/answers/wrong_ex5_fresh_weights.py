"""Thinks that layers of the same sizes compute the same, and makes new ones with new weights."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        parts = nn.ModuleList([nn.Sequential(), nn.Sequential()])
        for number, layer in enumerate(layers):
            if isinstance(layer, nn.Linear):
                layer = nn.Linear(layer.in_features, layer.out_features)
            parts[0 if number < cut else 1].append(layer)
        self.part0 = parts[0].to(device0)
        self.part1 = parts[1].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x
