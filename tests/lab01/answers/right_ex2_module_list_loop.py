"""Keeps the layers in a nn.ModuleList and the devices in a list, and goes through both in a loop."""


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.places = [device0, device1]
        self.layers = nn.ModuleList([nn.Linear(1000, 2000), nn.Linear(2000, 1000)])
        for layer, place in zip(self.layers, self.places, strict=True):
            layer.to(place)

    def forward(self, x):
        for layer, place in zip(self.layers, self.places, strict=True):
            x = layer(x.to(place)).relu()
        return x
