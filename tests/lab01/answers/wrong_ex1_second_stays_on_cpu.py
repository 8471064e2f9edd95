"""Thinks that only the first layer has to be moved, because the second one gets its data from the first."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer2 = nn.Linear(2000, 1000)
    layer1.to(device0)
    return layer1, layer2
