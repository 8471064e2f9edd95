"""Leaves the nn.Sequential whole, moves its layers in place, and sends the batch to the device of every layer."""


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first, second = layers[:cut], layers[cut:]
        first.to(device0)
        second.to(device1)
        self.layers = layers
        self.places = [device0] * len(first) + [device1] * len(second)
        print("places:", *self.places)

    def forward(self, x):
        for layer, place in zip(self.layers, self.places, strict=True):
            x = layer(x.to(place))
        return x
