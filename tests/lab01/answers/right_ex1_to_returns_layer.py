"""Makes each layer and moves it in the same line, as the lesson does."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to(device0)
    layer2 = nn.Linear(2000, 1000).to(device1)
    return layer1, layer2
