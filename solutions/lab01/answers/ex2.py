# %% wrong: batch_fetched_twice_from_itself
# Overwrites x, so that at the end it adds the output to itself.

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
        return x + x


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
        hidden = self.relu1(self.layer1(x)).to(self.device0)
        hidden = hidden.to("cpu")  # without this line it raised
        return self.relu2(self.layer2(hidden)).to(self.device1) + x.to(self.device1)


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
        hidden = self.relu1(self.layer1(x.to(self.device0)))
        hidden = hidden.detach().to(self.device1)
        return self.relu2(self.layer2(hidden)) + x.to(self.device1)


# %% wrong: expects_the_cpu
# Thinks that a batch always comes from the CPU, and makes its second copy only then.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        hidden = self.relu1(self.layer1(x.to(self.device0)))
        out = self.relu2(self.layer2(hidden.to(self.device1)))
        if x.device.type == "cpu":
            x = x.to(self.device1)
        return out + x


# %% wrong: hidden_is_added
# Adds what the first part computed, not the batch: the sizes do not fit.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        hidden = self.relu1(self.layer1(x.to(self.device0))).to(self.device1)
        return self.relu2(self.layer2(hidden)) + hidden


# %% wrong: in_place_sum
# Adds the batch in place into the result of the ReLU, which backward() still needs as it was.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        on_first = x.to(self.device0)
        on_second = x.to(self.device1, non_blocking=True)
        hidden = self.layer1(on_first).clamp(min=0)
        out = self.relu2(self.layer2(hidden.to(self.device1)))
        out += on_second
        return out


# %% wrong: input_never_moved
# Thinks that a layer fetches its input from any device, so the batch is not moved to the first device.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        hidden = self.relu1(self.layer1(x))
        hidden = hidden.to(self.device1)
        return self.relu2(self.layer2(hidden)) + x


# %% wrong: layers_made_in_forward
# Thinks that layers can be made where they are used: new weights in every call, and no parameters.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1

    def forward(self, x):
        layer1 = nn.Linear(1000, 2000).to(self.device0)
        layer2 = nn.Linear(2000, 1000).to(self.device1)
        hidden = torch.relu(layer1(x.to(self.device0)))
        return torch.relu(layer2(hidden.to(self.device1))) + x.to(self.device1)


# %% wrong: lessons_forward
# Writes the model of the lesson, without the shortcut.

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


# %% wrong: middle_too_small
# Thinks that the numbers in and out are the only sizes of a model, and makes the middle as wide as the input.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 1000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(1000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        hidden = self.relu1(self.layer1(x.to(self.device0)))
        return self.relu2(self.layer2(hidden.to(self.device1))) + x.to(self.device1)


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
        first = self.layer1(x.to(self.device0)).to(self.device1)
        second = self.layer2(self.relu1(first))
        return self.relu2(second) + x.to(self.device1)


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
        out = self.relu1(self.layer1(x))
        out = self.relu2(self.layer2(out))
        return out + x


# %% wrong: notebook_devices
# Uses the devices of the notebook in forward, not those that the model was given.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        start = x.to(device1)
        x = self.relu1(self.layer1(x.to(device0)))
        return self.relu2(self.layer2(x.to(device1))) + start


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
        x0 = x.to(self.device0)
        out = self.relu1(self.layer1(x0))
        out = self.relu2(self.layer2(out.to(self.device1)))
        return out.to(self.device0) + x0


# %% wrong: shortcut_before_the_last_relu
# Adds the batch before the last ReLU, as a ResNet does, and not after it.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        hidden = self.relu1(self.layer1(x.to(self.device0)))
        return self.relu2(self.layer2(hidden.to(self.device1)) + x.to(self.device1))


# %% wrong: shortcut_left_on_first
# Forgets that the batch, too, has to come to the second device.

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
        hidden = self.relu1(self.layer1(x))
        return self.relu2(self.layer2(hidden.to(self.device1))) + x


# %% wrong: shortcut_detoured
# Brings the output to where the batch is, adds there, and sends the sum back: two copies too many.

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
        hidden = self.relu1(self.layer1(x))
        out = self.relu2(self.layer2(hidden.to(self.device1)))
        return (out.to(self.device0) + x).to(self.device1)


# %% wrong: through_the_cpu
# Thinks that a tensor goes from one GPU to another by way of the CPU.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000).to(device0)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Linear(2000, 1000).to(device1)
        self.relu2 = nn.ReLU()

    def forward(self, x):
        hidden = self.relu1(self.layer1(x.to(self.device0)))
        hidden = hidden.cpu().to(self.device1)
        return self.relu2(self.layer2(hidden)) + x.to(self.device1)


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
        hidden = self.relu1(self.layer1(x))
        hidden.to(self.device1)
        x.to(self.device1)
        return self.relu2(self.layer2(hidden)) + x


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
        hidden = self.relu1(self.layer1(x.to(self.device0)))
        return self.relu2(self.layer2(hidden.to(self.device1))) + x.to(self.device1)


# %% right: asks_the_weights
# Makes the layers in device contexts, uses one ReLU twice, and moves the batch to the device of the weights.

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
        out = x
        for layer in (self.layer1, self.layer2):
            out = self.relu(layer(out.to(layer.weight.device)))
        return out + x.to(out.device)


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
        x = x.to(self.device0)
        hidden = F.relu(self.layer1(x))
        shortcut = x.to(self.device1)
        return torch.add(F.relu(self.layer2(hidden.to(self.device1))), shortcut)


# %% right: hooks_move_the_batch
# Lets a hook in front of each part move its input, so that forward is one plain sum. The ReLUs work in place.

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
        return self.net(x) + x.to(self.device1)


# %% right: two_parts
# Two nn.Sequential parts, each with a linear layer and its ReLU, one part on each device.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = nn.Sequential(nn.Linear(1000, 2000), nn.ReLU()).to(device0)
        self.part1 = nn.Sequential(nn.Linear(2000, 1000), nn.ReLU()).to(device1)

    def forward(self, x):
        return x.to(self.device1) + self.part1(self.part0(x.to(self.device0)).to(self.device1))


# %% wrong: sent_to_the_notebooks_device
# Makes sure at the end that the output is on device1: the one of the notebook, not the one that the model was given.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000, device=device0)
        self.layer2 = nn.Linear(2000, 1000, device=device1)
        self.relu = nn.ReLU()

    def forward(self, x):
        hidden = self.relu(self.layer1(x.to(self.device0)))
        through = self.relu(self.layer2(hidden.to(self.device1)))
        past = x.to(self.device1)
        return (through + past).to(device1)


# %% wrong: second_layer_called_twice
# Asks for a shape by calling the layer once more, so that a device does the work of two layers.

class SimpleMPModel(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = nn.Linear(1000, 2000, device=device0)
        self.layer2 = nn.Linear(2000, 1000, device=device1)
        self.relu = nn.ReLU()

    def forward(self, x):
        hidden = self.relu(self.layer1(x.to(self.device0)))
        through = self.relu(self.layer2(hidden.to(self.device1)))
        assert self.layer2(hidden.to(self.device1).detach()).shape == x.shape
        past = x.to(self.device1)
        return through + past
