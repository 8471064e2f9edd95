# %% wrong: all_on_first_output_moved
# Thinks that a model is split when its output is on the second device, but computes all on the first.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000)
        self.relu2 = nn.ReLU()
        self.to(device0)

    def forward(self, x):
        x = x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x = self.relu2(self.layer2(x))
        return x.to(self.device1)


# %% wrong: computes_on_cpu
# Thinks that moving the data is enough to compute on a device, while the layers stay on the CPU.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.relu1(self.layer1(x)).to(self.device0)
        x = x.to("cpu")  # without this line it raised
        x = self.relu2(self.layer2(x)).to(self.device1)
        return x


# %% wrong: detach_between
# Thinks that a tensor must be detached before it changes its device, so the first layer gets no gradient.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.relu1(self.layer1(x.to(self.device0)))
        x = x.detach().to(self.device1)
        return self.relu2(self.layer2(x))


# %% wrong: input_never_moved
# Thinks that a layer fetches its input from wherever it is, so the batch is not moved to the first device.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.relu1(self.layer1(x))
        x = x.to(self.device1)
        return self.relu2(self.layer2(x))


# %% wrong: layers_made_in_forward
# Thinks that layers can be made where they are used, so every call has new weights and the model has no parameters.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1

    def forward(self, x):
        layer1 = nn.Linear(1000, 2000).to(self.device0)
        layer2 = nn.Linear(2000, 1000).to(self.device1)
        x = torch.relu(layer1(x.to(self.device0)))
        x = torch.relu(layer2(x.to(self.device1)))
        return x


# %% wrong: middle_too_small
# Thinks that the numbers in and out are the only sizes of a model, and makes the middle as wide as the input.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 1000, device=device0)
        self.layer2 = nn.Linear(1000, 1000, device=device1)
        self.relu = nn.ReLU()

    def forward(self, x):
        x = self.relu(self.layer1(x.to(self.device0)))
        x = self.relu(self.layer2(x.to(self.device1)))
        return x


# %% wrong: moves_before_relu
# Thinks that the batch moves right after the first layer, so the first ReLU works on the wrong device.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = x.to(self.device0)
        x = self.layer1(x)
        x = x.to(self.device1)
        x = self.relu1(x)
        x = self.layer2(x)
        x = self.relu2(x)
        return x


# %% wrong: no_move_between
# Thinks that two GPUs share their memory, so that nothing has to be moved between the layers.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x = self.relu2(self.layer2(x))
        return x


# %% wrong: no_relu_at_the_end
# Thinks that an activation belongs only between layers, so the last ReLU is left out.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)

    def forward(self, x):
        x = self.relu(self.layer1(x.to(self.device0)))
        return self.layer2(x.to(self.device1))


# %% wrong: notebook_devices
# Copies the lesson's forward, which uses the devices of the notebook, not those that the model was given.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = x.to(device0)
        x = self.relu1(self.layer1(x))
        x = x.to(device1)
        x = self.relu2(self.layer2(x))
        return x


# %% wrong: output_back_to_caller
# Thinks that a caller who gives a batch on the CPU must get the output on the CPU.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        came_from = x.device
        x = x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x = x.to(self.device1)
        x = self.relu2(self.layer2(x))
        return x.to(came_from)


# %% wrong: output_back_to_first
# Thinks that the output has to go back to the device on which the model began.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.relu1(self.layer1(x.to(self.device0)))
        x = self.relu2(self.layer2(x.to(self.device1)))
        return x.to(self.device0)


# %% wrong: relu1_made_not_called
# Thinks that a layer which was made in __init__ takes part by itself, and never calls the first ReLU.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = self.layer1(x.to(self.device0))
        x = self.layer2(x.to(self.device1))
        x = self.relu2(x)
        return x


# %% wrong: to_without_keeping
# Thinks that x.to(device) moves x in place.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x.to(self.device1)
        x = self.relu2(self.layer2(x))
        return x


# %% wrong: whole_model_moved_at_the_end
# Thinks that a model always has to be moved as a whole in the end, and so undoes the split.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()
        self.to(device0)

    def forward(self, x):
        x = self.relu1(self.layer1(x.to(self.device0)))
        x = self.relu2(self.layer2(x.to(self.device1)))
        return x


# %% right: as_in_the_lesson
# Four modules with names, and one .to before each layer, as in the lesson.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        x = x.to(self.device0)
        x = self.relu1(self.layer1(x))
        x = x.to(self.device1)
        x = self.relu2(self.layer2(x))
        return x


# %% right: asks_the_weights
# Makes the layers in device contexts, uses one ReLU twice, and moves the batch to wherever the weights are.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        with torch.device(device0):
            self.layer1 = nn.Linear(1000, 2000)
        with torch.device(device1):
            self.layer2 = nn.Linear(2000, 1000)
        self.relu = nn.ReLU()

    def forward(self, x):
        for layer in (self.layer1, self.layer2):
            x = self.relu(layer(x.to(layer.weight.device)))
        return x


# %% right: clamp_and_warning
# Writes the ReLU as a clamp at zero, and warns when the batch does not come from the CPU.

import warnings


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000)
        self.layer2 = nn.Linear(2000, 1000)
        self.layer1.to(device0)
        self.layer2.to(device1)

    def forward(self, x):
        if x.device.type != "cpu":
            warnings.warn(f"expected a batch on the CPU, got one on {x.device}", stacklevel=2)
        on_first = self.layer1(x.to(self.device0)).clamp(min=0)
        on_second = on_first.to(self.device1, non_blocking=True)
        return self.layer2(on_second).clamp(min=0)


# %% right: functional_relu
# Uses F.relu in place of ReLU modules and the device argument of nn.Linear, and prints where the batch is.

import torch.nn.functional as F


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000, device=device0)
        self.layer2 = nn.Linear(2000, 1000, device=device1)

    def forward(self, x):
        print("the batch arrives on", x.device)
        hidden = F.relu(self.layer1(x.to(self.device0)))
        print("hidden is on", hidden.device)
        return F.relu(self.layer2(hidden.to(self.device1)))


# %% right: hooks_move_the_batch
# Lets a hook in front of each part move the batch, so that forward is one plain call. The ReLUs work in place.

def bring_to(device):
    def hook(module, inputs):
        return tuple(tensor.to(device) for tensor in inputs)

    return hook


class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.net = nn.Sequential()
        self.net.add_module("layer1", nn.Linear(1000, 2000, device=device0))
        self.net.add_module("relu1", nn.ReLU(inplace=True))
        self.net.add_module("layer2", nn.Linear(2000, 1000, device=device1))
        self.net.add_module("relu2", nn.ReLU(inplace=True))
        self.net.layer1.register_forward_pre_hook(bring_to(device0))
        self.net.layer2.register_forward_pre_hook(bring_to(device1))

    def forward(self, x):
        return self.net(x)


# %% right: module_list_loop
# Keeps the layers in a nn.ModuleList and the devices in a list, and goes through both in a loop.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.places = [device0, device1]
        self.layers = nn.ModuleList([nn.Linear(1000, 2000), nn.Linear(2000, 1000)])
        for layer, place in zip(self.layers, self.places, strict=True):
            layer.to(place)

    def forward(self, x):
        for layer, place in zip(self.layers, self.places, strict=True):
            x = layer(x.to(place)).relu()
        return x


# %% right: two_parts
# Two nn.Sequential parts, each with a linear layer and its ReLU, one part on each device.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = nn.Sequential(nn.Linear(1000, 2000), nn.ReLU()).to(device0)
        self.part1 = nn.Sequential(nn.Linear(2000, 1000), nn.ReLU()).to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))
