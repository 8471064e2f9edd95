"""Thinks that .to moves a weight in place, as it moves a layer."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer1.weight.to(device0)
    layer1.bias.to(device0)
    layer2 = nn.Linear(2000, 1000)
    layer2.weight.to(device1)
    layer2.bias.to(device1)
    return layer1, layer2
