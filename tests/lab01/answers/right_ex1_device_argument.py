"""Gives nn.Linear the device, so that nothing is moved at all. Prints what it made."""


def make_layers(device0, device1):
    layer1 = nn.Linear(in_features=1000, out_features=2000, device=device0)
    layer2 = nn.Linear(in_features=2000, out_features=1000, device=device1)
    print("layer1:", layer1, "on", layer1.weight.device)
    print("layer2:", layer2, "on", layer2.weight.device)
    return layer1, layer2
