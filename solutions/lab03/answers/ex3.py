# %% wrong: all_in_each
# Makes two optimizers and gives both of them all the parameters.

def make_optimizers(model, lr):
    return [torch.optim.Adam(model.parameters(), lr=lr), torch.optim.Adam(model.parameters(), lr=lr)]


# %% wrong: dict_overwrites
# Keeps one parameter for each device, the last one, because the dict entry is overwritten.

def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups[parameter.device] = [parameter]
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]


# %% wrong: first_and_others
# Splits into the first parameter's device and all others, as if there were never three.

def make_optimizers(model, lr):
    device = next(model.parameters()).device
    same = [p for p in model.parameters() if p.device == device]
    others = [p for p in model.parameters() if p.device != device]
    return [torch.optim.Adam(same, lr=lr)] + ([torch.optim.Adam(others, lr=lr)] if others else [])


# %% wrong: generator_used_twice
# Goes through one generator of parameters twice, so that the second search finds nothing.

def make_optimizers(model, lr):
    parameters = model.parameters()
    first = [p for p in parameters if p.device == device0]
    second = [p for p in parameters if p.device == device1]
    return [torch.optim.Adam(first, lr=lr), torch.optim.Adam(second, lr=lr)]


# %% wrong: gpus_only
# Thinks that parameters on the CPU need no optimizer.

def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        if parameter.device.type != "cpu":
            groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]


# %% wrong: halves
# Thinks that the first half of the parameters is on the first device.

def make_optimizers(model, lr):
    parameters = list(model.parameters())
    half = len(parameters) // 2
    return [torch.optim.Adam(parameters[:half], lr=lr), torch.optim.Adam(parameters[half:], lr=lr)]


# %% wrong: lr_forgotten
# Forgets to hand the learning rate on, so Adam takes its own.

def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(group) for group in groups.values()]


# %% wrong: modules_recursion_twice
# Collects the parameters of every module and of its children again, so nested ones come twice.

def make_optimizers(model, lr):
    groups = {}
    for module in model.modules():
        for parameter in module.parameters():
            groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]


# %% wrong: notebook_devices
# Knows two devices only, those of the notebook.

def make_optimizers(model, lr):
    first = [p for p in model.parameters() if p.device == device0]
    second = [p for p in model.parameters() if p.device == device1]
    return [torch.optim.Adam(ps, lr=lr) for ps in (first, second) if ps]


# %% wrong: one_for_all
# Thinks that one optimizer in a list is one for each device.

def make_optimizers(model, lr):
    return [torch.optim.Adam(model.parameters(), lr=lr)]


# %% wrong: one_per_layer
# Makes one optimizer for each child of the model, not for each device.

def make_optimizers(model, lr):
    return [torch.optim.Adam(layer.parameters(), lr=lr) for layer in model.children()]


# %% wrong: parameter_groups
# Thinks that one optimizer with a group for each device is several optimizers.

def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam([{"params": group} for group in groups.values()], lr=lr)]


# %% wrong: returns_dict
# Returns the dict that sorted the parameters, with optimizers for values.

def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return {device: torch.optim.Adam(group, lr=lr) for device, group in groups.items()}


# %% wrong: sgd
# Makes the optimizers of the first loop in the lesson, SGD, where Adam is asked for.

def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.SGD(group, lr=lr) for group in groups.values()]


# %% wrong: trained_ones_only
# Leaves frozen parameters out, because nothing updates them now.

def make_optimizers(model, lr):
    by_device = {}
    for p in model.parameters():
        if p.requires_grad:
            by_device.setdefault(p.device, []).append(p)
    return [torch.optim.Adam(parameters, lr=lr) for parameters in by_device.values()]


# %% wrong: where_the_weight_is
# Asks each layer's weight for the device, and takes the layer's bias along.

def make_optimizers(model, lr):
    groups = {}
    for layer in set(model.modules()):
        if hasattr(layer, "weight"):
            groups.setdefault(layer.weight.device, []).extend(layer.parameters())
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]


# %% right: add_param_group
# Makes an optimizer when a device is met first, and adds later parameters to it.

def make_optimizers(model, lr):
    found = {}
    for parameter in model.parameters():
        if parameter.device in found:
            found[parameter.device].add_param_group({"params": [parameter]})
        else:
            found[parameter.device] = torch.optim.Adam([parameter], lr=lr)
    return list(found.values())


# %% right: defaultdict
# A defaultdict of lists, and a print of what is in it.

from collections import defaultdict


def make_optimizers(model, lr):
    by_device = defaultdict(list)
    for name, parameter in model.named_parameters():
        print(name, "is on", parameter.device)
        by_device[str(parameter.device)].append(parameter)
    return [torch.optim.Adam(group, lr=lr) for group in by_device.values()]


# %% right: groupby
# Sorts by device and uses itertools.groupby, with a tuple as result.

from itertools import groupby


def make_optimizers(model, lr):
    def place(parameter):
        return str(parameter.device)

    ordered = sorted(model.parameters(), key=place)
    return tuple(torch.optim.Adam(list(group), lr=lr, foreach=False) for _, group in groupby(ordered, key=place))


# %% right: set_of_devices
# First the set of devices, then a search for each.

def make_optimizers(model, lr):
    parameters = list(model.parameters())
    devices_used = {p.device for p in parameters}
    return [torch.optim.Adam([p for p in parameters if p.device == device], lr) for device in devices_used]


# %% wrong: layers_of_the_model_only
# Thinks that the parameters are those of the model's direct children, and does not look inside these.

def make_optimizers(model, lr):
    by_device = {}
    for layer in model.children():
        for parameter in layer.parameters(recurse=False):
            by_device.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(parameters, lr=lr) for parameters in by_device.values()]
