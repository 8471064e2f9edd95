"""Thinks that the usual line from tutorials chooses the device, and ignores the devices that are given."""


def make_layers(device0, device1):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layer1 = nn.Linear(1000, 2000).to(device)
    layer2 = nn.Linear(2000, 1000).to(device)
    return layer1, layer2
