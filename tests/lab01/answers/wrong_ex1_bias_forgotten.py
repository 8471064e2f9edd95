"""Thinks that a layer is nothing but its weight, and leaves the bias on the CPU."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer2 = nn.Linear(2000, 1000)
    layer1.weight = nn.Parameter(layer1.weight.detach().to(device0))
    layer2.weight = nn.Parameter(layer2.weight.detach().to(device1))
    return layer1, layer2
