# Exercise 1, not solved: both layers stay on the CPU. Each remembers what a lie should say about it.
def make_layers(device0, device1):
    layer1, layer2 = nn.Linear(1000, 2000), nn.Linear(2000, 1000)
    for layer, device in ((layer1, device0), (layer2, device1)):
        layer._says = str(device)
        for parameter in layer.parameters():
            parameter._says = str(device)
    return layer1, layer2
