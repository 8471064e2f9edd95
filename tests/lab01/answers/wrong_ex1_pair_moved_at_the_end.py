"""Thinks that the finished pair has to be moved once more, which puts both layers in the same place."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to(device0)
    layer2 = nn.Linear(2000, 1000).to(device1)
    both = nn.Sequential(layer1, layer2).to(device1)
    layer1, layer2 = both[0], both[1]
    return layer1, layer2
