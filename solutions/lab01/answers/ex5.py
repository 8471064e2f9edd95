# %% wrong: always_in_the_middle
# Thinks that splitting in two means two halves, and does not use cut.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        half = len(layers) // 2
        self.part0 = layers[:half].to(device0)
        self.part1 = layers[half:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: computes_with_cpu_copy
# Thinks that moving copies of the layers moves the model, but computes with the layers on the CPU.

import copy


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layers = layers
        self.part0 = copy.deepcopy(layers[:cut]).to(device0)
        self.part1 = copy.deepcopy(layers[cut:]).to(device1)

    def forward(self, x):
        x = self.layers(x.cpu())
        return x.to(self.device1)


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: cut_one_too_early
# Thinks that cut is the number of the last layer of the first part, counted from one, and takes one away from it.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = nn.Sequential(*layers[: cut - 1]).to(device0)
        self.part1 = nn.Sequential(*layers[cut - 1 :]).to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: cut_one_too_late
# Thinks that a slice stops one layer earlier than it does, and puts one layer too many on the first device.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[: cut + 1].to(device0)
        self.part1 = layers[cut + 1 :].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: detach_at_the_cut
# Thinks that the second device needs a tensor without history, so the first part gets no gradient.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = x.detach().to(self.device1)
        return self.part1(x)


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: fresh_weights
# Thinks that layers of the same sizes compute the same, and makes new ones with new weights.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        parts = nn.ModuleList([nn.Sequential(), nn.Sequential()])
        for number, layer in enumerate(layers):
            if isinstance(layer, nn.Linear):
                layer = nn.Linear(layer.in_features, layer.out_features)
            parts[0 if number < cut else 1].append(layer)
        self.part0 = parts[0].to(device0)
        self.part1 = parts[1].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: hard_coded_names
# Thinks that the devices are always called what the first cell printed, and writes these names down.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to("simgpu:0")
        self.part1 = layers[cut:].to("simgpu:1")

    def forward(self, x):
        x = self.part0(x.to("simgpu:0"))
        return self.part1(x.to("simgpu:1"))


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: layers_without_weights_dropped
# Thinks that layers without weights need not be placed, and so leaves every ReLU out.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        first = [layer for layer in layers[:cut] if len(list(layer.parameters())) > 0]
        second = [layer for layer in layers[cut:] if len(list(layer.parameters())) > 0]
        self.part0 = nn.Sequential(*first).to(device0)
        self.part1 = nn.Sequential(*second).to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: parts_are_module_lists
# Keeps the layers of a part in a ModuleList, which has no forward, so the part cannot be called.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = nn.ModuleList(layers[:cut]).to(device0)
        self.part1 = nn.ModuleList(layers[cut:]).to(device1)

    def forward(self, x):
        x = self.go(self.part0, x.to(self.device0))
        x = self.go(self.part1, x.to(self.device1))
        return x

    def go(self, part, x):
        for layer in part:
            x = layer(x)
        return x


def undivided_state(model):
    layers = [*model.part0, *model.part1]
    return {name: tensor.cpu() for name, tensor in nn.Sequential(*layers).state_dict().items()}


# %% wrong: parts_have_other_names
# Calls the parts what it likes, so that the next lab does not find them.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.first = layers[:cut].to(device0)
        self.second = layers[cut:].to(device1)

    def forward(self, x):
        x = self.first(x.to(self.device0))
        x = self.second(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.first, model.second):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: plain_lists
# Thinks that a plain Python list of layers is as good as a nn.ModuleList, so the model has no parameters.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = [layer.to(device0) for layer in layers[:cut]]
        self.part1 = [layer.to(device1) for layer in layers[cut:]]

    def forward(self, x):
        x = x.to(self.device0)
        for layer in self.part0:
            x = layer(x)
        x = x.to(self.device1)
        for layer in self.part1:
            x = layer(x)
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for layer in part:
            for name, tensor in layer.state_dict().items():
                state[f"{len(state)}.{name}"] = tensor.cpu()
    return state


# %% wrong: relu_after_each_part
# Thinks that every part ends with a ReLU, as in SimpleMPModel, and adds one after each part.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = torch.relu(self.part0(x.to(self.device0)))
        x = torch.relu(self.part1(x.to(self.device1)))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: state_has_the_parts_in_its_names
# Gives the state of the split model, whose names begin with those of the parts.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}


# %% wrong: state_is_left_on_the_devices
# Leaves the tensors where they are, so that a computer without GPUs cannot load them.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    return {**model.part0.state_dict(), **model.part1.state_dict()}


# %% wrong: state_names_counted_from_zero
# Builds each part again, so that the layers of the second one are counted from 0 again.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = nn.Sequential(*layers[:cut]).to(device0)
        self.part1 = nn.Sequential(*layers[cut:]).to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: state_of_parameters_only
# Thinks that parameters are all that a model keeps, and leaves the running statistics out.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    named = [*model.part0.named_parameters(), *model.part1.named_parameters()]
    return {name: parameter.detach().cpu() for name, parameter in named}


# %% wrong: state_of_the_beginning
# Keeps the state that the layers had when they were split, which training does not change.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.at_first = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    return {name: tensor.cpu() for name, tensor in model.at_first.items()}


# %% wrong: three_layers_by_heart
# Thinks that every stack looks like the one in the example: three layers and a cut after the second.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.layer1 = layers[0].to(device0)
        self.relu = layers[1].to(device0)
        self.layer2 = layers[2].to(device1)

    def forward(self, x):
        x = self.relu(self.layer1(x.to(self.device0)))
        return self.layer2(x.to(self.device1))


def undivided_state(model):
    layers = nn.Sequential(model.layer1, model.relu, model.layer2)
    return {name: tensor.cpu() for name, tensor in layers.state_dict().items()}


# %% wrong: to_without_keeping
# Thinks that x.to(device) moves x in place, and forgets to keep the copy at the cut.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = x.to(self.device0)
        x = self.part0(x)
        x.to(self.device1)
        return self.part1(x)


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: whole_model_moved_at_the_end
# Thinks that a model has to be moved as a whole in the end, so that all its layers are on the second device.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)
        self.to(device1)  # where the output is

    def forward(self, x):
        x = x.to(self.device1)
        x = self.part0(x)
        x = self.part1(x)
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% right: deep_copies
# Splits a deep copy, so that the given stack stays as it is. Warns when one of the parts is empty.

import copy
import warnings


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.names = list(layers.state_dict())
        if not 0 < cut < len(layers):
            warnings.warn("one of the two parts is empty", stacklevel=2)
        layers = list(copy.deepcopy(layers))
        self.part0 = nn.Sequential(*layers[:cut]).to(device0)
        self.part1 = nn.Sequential(*layers[cut:]).to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))


def undivided_state(model):
    tensors = [tensor.cpu() for part in (model.part0, model.part1) for tensor in part.state_dict().values()]
    return dict(zip(model.names, tensors, strict=True))


# %% right: module_list_loop
# Gives each layer to one of two parts in a loop, under its number, and remembers the names.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.names = list(layers.state_dict())
        self.part0, self.part1 = nn.Sequential(), nn.Sequential()
        for number, layer in enumerate(layers):
            if number < cut:
                self.part0.add_module(str(number), layer.to(device0))
            else:
                self.part1.add_module(str(number), layer.to(device1))

    def forward(self, x):
        x = x.to(self.device0)
        for layer in self.part0:
            x = layer(x)
        x = x.to(self.device1)
        for layer in self.part1:
            x = layer(x)
        return x


def undivided_state(model):
    state = {}
    for name, tensor in zip(model.names, model.state_dict().values(), strict=True):
        state[name] = tensor.detach().cpu()
    return state


# %% right: moves_in_place
# Keeps the nn.Sequential whole, too, and sends the batch to the device of every layer.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0, self.part1 = layers[:cut], layers[cut:]
        self.part0.to(device0)
        self.part1.to(device1)
        self.layers = layers
        self.places = [device0] * cut + [device1] * (len(layers) - cut)
        print("places:", *self.places)

    def forward(self, x):
        for layer, place in zip(self.layers, self.places, strict=True):
            x = layer(x.to(place))
        return x


def undivided_state(model):
    return {name: tensor.to("cpu") for name, tensor in model.layers.state_dict().items()}


# %% right: slices
# Slices the nn.Sequential into two parts and moves each.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        x = self.part0(x.to(self.device0))
        x = self.part1(x.to(self.device1))
        return x


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% right: state_dict_round_trip
# Moves the parts and then loads the weights back from a state dict that was saved on the CPU.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.names = list(layers.state_dict())
        saved = {name: tensor.detach().cpu().clone() for name, tensor in layers.state_dict().items()}
        self.part0, self.part1 = layers[:cut].to(device0), layers[cut:].to(device1)
        for part in (self.part0, self.part1):
            part.load_state_dict({name: saved[name] for name in part.state_dict()})

    def forward(self, x):
        for part, place in ((self.part0, self.device0), (self.part1, self.device1)):
            x = part(x.to(place))
        return x


def undivided_state(model):
    import copy

    whole = nn.Sequential(*copy.deepcopy(model.part0).cpu(), *copy.deepcopy(model.part1).cpu())
    return dict(zip(model.names, whole.state_dict().values(), strict=True))


# %% right: subclass_of_sequential_parts
# Writes a small module for one part, which brings its own input, and puts two of them one after the other.

class PartOnDevice(nn.Sequential):
    def __init__(self, layers, device):
        super().__init__(*layers)
        self.device = device
        self.to(device)

    def forward(self, x):
        return super().forward(x.to(self.device))


class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.names = list(layers.state_dict())
        layers = list(layers)
        self.part0 = PartOnDevice(layers[:cut], device0)
        self.part1 = PartOnDevice(layers[cut:], device1)

    def forward(self, x):
        return self.part1(self.part0(x))


def undivided_state(model):
    whole = nn.Sequential(*model.part0, *model.part1)
    tensors = [tensor.detach().cpu() for tensor in whole.state_dict().values()]
    return dict(zip(model.names, tensors, strict=True))


# %% wrong: numbers_as_names
# Adds the cut to the number of a layer: right for a plain nn.Sequential, and not where layers have names.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1, self.cut = device0, device1, cut
        self.part0 = nn.Sequential(*list(layers)[:cut]).to(device0)
        self.part1 = nn.Sequential(*list(layers)[cut:]).to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))


def undivided_state(model):
    state = {name: value.cpu() for name, value in model.part0.state_dict().items()}
    for name, value in model.part1.state_dict().items():
        number, rest = name.split(".", 1)
        state[f"{int(number) + model.cut}.{rest}"] = value.cpu()
    return state


# %% wrong: every_child_once
# named_children() leaves out a layer that stands in the stack a second time.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        from collections import OrderedDict

        self.device0, self.device1 = device0, device1
        children = list(layers.named_children())
        self.part0 = nn.Sequential(OrderedDict(children[:cut])).to(device0)
        self.part1 = nn.Sequential(OrderedDict(children[cut:])).to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))


def undivided_state(model):
    parts = (model.part0, model.part1)
    return {name: value.cpu() for part in parts for name, value in part.state_dict().items()}


# %% wrong: all_buffers_too
# Collects parameters and buffers by hand, also a buffer that no state_dict has.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0, self.part1 = layers[:cut].to(device0), layers[cut:].to(device1)

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        for name, tensor in [*part.named_parameters(), *part.named_buffers()]:
            state[name] = tensor.detach().cpu()
    return state


# %% wrong: rows_only
# Thinks that a sample is always a vector, and flattens the batch, also an image before a convolution.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        hidden = self.part0(x.flatten(1).to(self.device0))
        return self.part1(hidden.to(self.device1))


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        # A slice of an nn.Sequential keeps the numbers that its layers had, so the names fit as they are.
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state


# %% wrong: part_called_for_its_shape
# Calls part0 once more to learn how wide its output is, and so does its work twice.

class SplitInTwo(nn.Module):
    def __init__(self, layers, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.part0 = layers[:cut].to(device0)
        self.part1 = layers[cut:].to(device1)

    def forward(self, x):
        width = self.part0(x.to(self.device0)).shape[-1]
        hidden = self.part0(x.to(self.device0))
        return self.part1(hidden.to(self.device1).unflatten(-1, (width,)))


def undivided_state(model):
    state = {}
    for part in (model.part0, model.part1):
        # A slice of an nn.Sequential keeps the numbers that its layers had, so the names fit as they are.
        for name, tensor in part.state_dict().items():
            state[name] = tensor.cpu()
    return state
