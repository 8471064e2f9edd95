# %% wrong: bias_forgotten
# Thinks that a layer is nothing but its weight, and leaves the bias on the CPU.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer2 = nn.Linear(2000, 1000)
    layer1.weight = nn.Parameter(layer1.weight.detach().to(device0))
    layer2.weight = nn.Parameter(layer2.weight.detach().to(device1))
    return layer1, layer2


# %% wrong: both_on_first
# Thinks that layers which work one after the other must share a device, and puts both on the first.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to(device0)
    layer2 = nn.Linear(2000, 1000).to(device0)
    return layer1, layer2


# %% wrong: cuda_or_cpu_idiom
# Thinks that the usual line from tutorials chooses the device, and ignores the devices that are given.

def make_layers(device0, device1):
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    layer1 = nn.Linear(1000, 2000).to(device)
    layer2 = nn.Linear(2000, 1000).to(device)
    return layer1, layer2


# %% wrong: hard_coded_names
# Thinks that the devices are always called what the first cell printed, and writes these names down.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to("simgpu:0")
    layer2 = nn.Linear(2000, 1000).to("simgpu:1")
    return layer1, layer2


# %% wrong: out_before_in
# Thinks that nn.Linear takes the number of outputs first and the number of inputs second.

def make_layers(device0, device1):
    layer1 = nn.Linear(2000, 1000).to(device0)
    layer2 = nn.Linear(1000, 2000).to(device1)
    return layer1, layer2


# %% wrong: pair_moved_at_the_end
# Thinks that the finished pair has to be moved once more, which puts both layers in the same place.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to(device0)
    layer2 = nn.Linear(2000, 1000).to(device1)
    both = nn.Sequential(layer1, layer2).to(device1)
    layer1, layer2 = both[0], both[1]
    return layer1, layer2


# %% wrong: second_stays_on_cpu
# Thinks that only the first layer has to be moved, because the second one gets its data from the first.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer2 = nn.Linear(2000, 1000)
    layer1.to(device0)
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
# Gives nn.Linear the device, so that nothing is moved at all. Prints what it made.

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
# Makes the layers in a loop over a dict and moves them in place. Warns when both devices are the same.

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


# %% right: new_parameters
# Moves the weight and the bias by hand, each as a new parameter on the right device.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000)
    layer2 = nn.Linear(2000, 1000)
    for layer, device in ((layer1, device0), (layer2, device1)):
        layer.weight = nn.Parameter(layer.weight.detach().to(device))
        layer.bias = nn.Parameter(layer.bias.detach().to(device))
    return layer1, layer2


# %% right: state_dict_copy
# Makes the layers on the CPU and loads their state dicts into layers that were made on the devices.

def make_layers(device0, device1):
    on_cpu = nn.Sequential(nn.Linear(1000, 2000), nn.Linear(2000, 1000))

    layer1 = nn.Linear(1000, 2000, device=device0)
    layer1.load_state_dict(on_cpu[0].state_dict())
    layer2 = nn.Linear(2000, 1000, device=device1)
    layer2.load_state_dict(on_cpu[1].state_dict())
    return layer1, layer2


# %% right: to_returns_layer
# Makes each layer and moves it in the same line, as the lesson does.

def make_layers(device0, device1):
    layer1 = nn.Linear(1000, 2000).to(device0)
    layer2 = nn.Linear(2000, 1000).to(device1)
    return layer1, layer2
