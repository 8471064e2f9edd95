"""Makes the layers in a loop over a dict and moves them in place. Warns when both devices are the same."""

import warnings


def make_layers(device0, device1):
    if device0 == device1:
        warnings.warn("both layers are on one device", stacklevel=2)
    table = {"layer1": (1000, 2000, device0), "layer2": (2000, 1000, device1)}
    made = {}
    for name, (inputs, outputs, device) in table.items():
        made[name] = nn.Linear(inputs, outputs)
        made[name].to(device)
    layer1, layer2 = made["layer1"], made["layer2"]
    return layer1, layer2
