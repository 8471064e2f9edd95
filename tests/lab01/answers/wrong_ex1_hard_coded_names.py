"""Thinks that the devices are always called what the first cell printed, and writes these names down."""


def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to("simgpu:0")
    layer2 = nn.Linear(2000, 1000).to("simgpu:1")
    return layer1, layer2
