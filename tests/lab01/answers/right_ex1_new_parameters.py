"""Moves the weight and the bias by hand, each as a new parameter on the right device."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer2 = nn.Linear(2000, 1000)
    for layer, device in ((layer1, device0), (layer2, device1)):
        layer.weight = nn.Parameter(layer.weight.detach().to(device))
        layer.bias = nn.Parameter(layer.bias.detach().to(device))
    return layer1, layer2
