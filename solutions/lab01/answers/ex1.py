# %% wrong: both_on_first
# Thinks that layers which work one after the other must share a device, and puts both on the first.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device=device0)
    layer2 = nn.Linear(2000, 1000, device=device0)
    return layer1, layer2


# %% wrong: cuda_or_cpu_idiom
# Thinks that the usual line from tutorials chooses the device, and ignores the devices that are given.

def make_layers(device0, device1):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layer1 = nn.Linear(1000, 2000, device=device)
    layer2 = nn.Linear(2000, 1000, device=device)
    return layer1, layer2


# %% wrong: hard_coded_names
# Thinks that the devices are always called what the first cell printed, and writes these names down.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device="simgpu:0")
    layer2 = nn.Linear(2000, 1000, device="simgpu:1")
    return layer1, layer2


# %% wrong: made_on_the_cpu_then_moved
# Moves the layers, as the lesson does: they are made on the CPU first, and copied.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to(device0)
    layer2 = nn.Linear(2000, 1000).to(device1)
    return layer1, layer2


# %% wrong: made_on_the_first_then_moved
# Thinks that only copies from the CPU count, makes both layers on the first device and moves one on.

def make_layers(device0, device1):
    with torch.device(device0):
        layer1 = nn.Linear(1000, 2000)
        layer2 = nn.Linear(2000, 1000)
    layer2 = layer2.to(device1)
    return layer1, layer2


# %% wrong: out_before_in
# Thinks that nn.Linear takes the number of outputs first and the number of inputs second.

def make_layers(device0, device1):
    layer1 = nn.Linear(2000, 1000, device=device0)
    layer2 = nn.Linear(1000, 2000, device=device1)
    return layer1, layer2


# %% wrong: pair_moved_at_the_end
# Thinks that the finished pair has to be moved once more, which puts both layers in the same place.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device=device0)
    layer2 = nn.Linear(2000, 1000, device=device1)
    both = nn.Sequential(layer1, layer2).to(device1)
    layer1, layer2 = both[0], both[1]
    return layer1, layer2


# %% wrong: second_stays_on_cpu
# Thinks that only the first layer needs a device, because the second one gets its data from the first.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device=device0)
    layer2 = nn.Linear(2000, 1000)
    return layer1, layer2


# %% wrong: weights_from_the_cpu
# Makes the layers on the devices, but fills them with numbers that were drawn on the CPU.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device=device0)
    layer2 = nn.Linear(2000, 1000, device=device1)
    with torch.no_grad():
        layer1.weight.copy_(torch.randn(2000, 1000) / 30)
        layer2.weight.copy_(torch.randn(1000, 2000) / 45)
    return layer1, layer2


# %% wrong: weights_to_in_place
# Thinks that .to moves a weight in place, as it moves a layer.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer1.weight.to(device0)
    layer1.bias.to(device0)
    layer2 = nn.Linear(2000, 1000)
    layer2.weight.to(device1)
    layer2.bias.to(device1)
    return layer1, layer2


# %% right: device_argument
# Gives nn.Linear the device. Prints what it made.

def make_layers(device0, device1):
    layer1 = nn.Linear(in_features=1000, out_features=2000, device=device0)
    layer2 = nn.Linear(in_features=2000, out_features=1000, device=device1)
    print("layer1:", layer1, "on", layer1.weight.device)
    print("layer2:", layer2, "on", layer2.weight.device)
    return layer1, layer2


# %% right: device_context
# Makes the layers inside two device contexts.

def make_layers(device0, device1):
    with torch.device(device0):
        layer1 = nn.Linear(1000, 2000)
    with torch.device(device1):
        layer2 = nn.Linear(2000, 1000)
    return layer1, layer2


# %% right: loop_over_table
# Makes the layers in a loop over a dict. Warns when both devices are the same.

import warnings


def make_layers(device0, device1):
    if device0 == device1:
        warnings.warn("both layers are on one device", stacklevel=2)
    table = {"layer1": (1000, 2000, device0), "layer2": (2000, 1000, device1)}
    made = {name: nn.Linear(inputs, outputs, device=device) for name, (inputs, outputs, device) in table.items()}
    return list(made.values())


# %% right: meta_then_empty
# Makes layers without numbers, gives them memory on their devices, and lets them draw their numbers there.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device="meta").to_empty(device=device0)
    layer2 = nn.Linear(2000, 1000, device="meta").to_empty(device=device1)
    for layer in (layer1, layer2):
        layer.reset_parameters()
    return layer1, layer2


# %% wrong: nothing_returned
# Thinks that what a function makes is there after it. It makes both layers and returns nothing.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000, device=device0)
    layer2 = nn.Linear(2000, 1000, device=device1)


# %% wrong: default_device_stays
# Sets the default device and never sets it back, so that what comes later is made on device1, too.

def make_layers(device0, device1):
    torch.set_default_device(device0)
    layer1 = nn.Linear(1000, 2000)
    torch.set_default_device(device1)
    layer2 = nn.Linear(2000, 1000)
    return layer1, layer2
