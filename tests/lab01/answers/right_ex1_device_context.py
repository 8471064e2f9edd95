"""Makes the layers inside two device contexts."""


def make_layers(device0, device1):
    with torch.device(device0):
        layer1 = nn.Linear(1000, 2000)
    with torch.device(device1):
        layer2 = nn.Linear(2000, 1000)
    return layer1, layer2
