# %% wrong: buffers_forgotten
# Thinks that parameters are all that a model keeps, and leaves the running statistics out.

def placement(model):
    return {name: str(parameter.device) for name, parameter in model.named_parameters()}


def torn_layers(model):
    torn = []
    for name, layer in model.named_modules():
        if len({p.device for p in layer.parameters(recurse=False)}) > 1:
            torn.append(name)
    return torn


# %% wrong: containers_are_torn_too
# Counts what stands inside of a layer as its own, so that every split model is torn.

def placement(model):
    return {name: str(t.device) for name, t in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    return [
        name
        for name, layer in model.named_modules()
        if len({t.device for t in [*layer.parameters(), *layer.buffers()]}) > 1
    ]


# %% wrong: device_objects
# Thinks that a torch.device is text, because it prints like text.

def placement(model):
    return {name: tensor.device for name, tensor in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    places = placement(model)
    return [name for name, _ in model.named_modules() if places[f"{name}.weight"] != places[f"{name}.bias"]]


# %% wrong: device_without_number
# Thinks that the kind of a device is its name, so all the GPUs look the same.

def placement(model):
    return {name: tensor.device.type for name, tensor in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    places = {}
    for name, place in placement(model).items():
        places.setdefault(name.rpartition(".")[0], set()).add(place)
    return [name for name, devices in places.items() if len(devices) > 1]


# %% wrong: direct_children_only
# Thinks that a model has no more than one level, and looks no deeper than at its direct children.

def placement(model):
    places = {}
    for child_name, child in model.named_children():
        for name, tensor in [*child.named_parameters(recurse=False), *child.named_buffers(recurse=False)]:
            places[f"{child_name}.{name}"] = str(tensor.device)
    return places


def torn_layers(model):
    torn = []
    for name, child in model.named_children():
        if len({str(t.device) for t in [*child.parameters(recurse=False), *child.buffers(recurse=False)]}) > 1:
            torn.append(name)
    return torn


# %% wrong: first_parameter_for_all
# Thinks that a model is on one device, so the device of the first parameter is the device of all.

def placement(model):
    device = str(next(model.parameters()).device)
    return {name: device for name, _ in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    return []


# %% wrong: last_part_of_name
# Thinks that the last part of a name is enough, so one weight overwrites the other.

def placement(model):
    places = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        places[name.split(".")[-1]] = str(tensor.device)
    return places


def torn_layers(model):
    return [name for name, layer in model.named_modules() if len(set(placement(layer).values())) > 1]


# %% wrong: leaves_are_layers
# Thinks that only a module without children can have tensors of its own.

def placement(model):
    found = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        found[name] = str(tensor.device)
    return found


def torn_layers(model):
    torn = []
    for name, layer in model.named_modules():
        if list(layer.children()):
            continue
        if len({t.device for t in [*layer.parameters(), *layer.buffers()]}) > 1:
            torn.append(name)
    return torn


# %% wrong: prints_only
# Thinks that printing a result is the same as returning it.

def placement(model):
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        print(name, tensor.device)


def torn_layers(model):
    for name, layer in model.named_modules():
        if len({t.device for t in layer.parameters(recurse=False)}) > 1:
            print(name)


# %% wrong: state_dict_is_all
# Thinks that everything is in the state dict, where buffers may be left out.

def placement(model):
    return {name: str(tensor.device) for name, tensor in model.state_dict().items()}


def torn_layers(model):
    places = {}
    for name, device in placement(model).items():
        layer, _, _ = name.rpartition(".")
        places.setdefault(layer, []).append(device)
    return [layer for layer, devices in places.items() if len(set(devices)) > 1]


# %% wrong: torn_by_its_name_without_the_path
# Gives the last part of the name of a layer, which inside of blocks says nothing.

def placement(model):
    return {name: str(t.device) for name, t in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    torn = []
    for name, layer in model.named_modules():
        devices = {t.device for t in [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]}
        if len(devices) > 1:
            torn.append(name.split(".")[-1])
    return torn


# %% wrong: torn_parameters_only
# Looks for torn layers among the parameters only, so that statistics left behind are not found.

def placement(model):
    return {name: str(t.device) for name, t in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    return [
        name
        for name, layer in model.named_modules()
        if len({p.device for p in layer.parameters(recurse=False)}) > 1
    ]


# %% wrong: torn_tells_whether
# Answers with True or False, not with the layers.

def placement(model):
    return {name: str(t.device) for name, t in [*model.named_parameters(), *model.named_buffers()]}


def torn_layers(model):
    return any(
        len({t.device for t in [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]}) > 1
        for layer in model.modules()
    )


# %% right: by_the_names
# Groups the entries of placement by what stands before the last point of their names.

from collections import defaultdict


def placement(model):
    tensors = dict(model.named_parameters()) | dict(model.named_buffers())
    return {name: str(tensor.device) for name, tensor in tensors.items()}


def torn_layers(model):
    devices_of = defaultdict(set)
    for name, device in placement(model).items():
        devices_of[name.rpartition(".")[0]].add(device)
    return [layer for layer, devices in devices_of.items() if len(devices) > 1]


# %% right: loop_and_print
# Plain loops with an f-string for the text, which also print the table.

def placement(model):
    where = {}
    for name, parameter in model.named_parameters():
        where[name] = f"{parameter.device}"
    for name, buffer in model.named_buffers():
        where[name] = f"{buffer.device}"
    for name in where:
        print(f"{name:<20} {where[name]}")
    return where


def torn_layers(model):
    torn = []
    for name, layer in model.named_modules():
        first = None
        for tensor in list(layer.parameters(recurse=False)) + list(layer.buffers(recurse=False)):
            if first is None:
                first = tensor.device
            elif tensor.device != first and name not in torn:
                torn.append(name)
    return torn


# %% right: recursion
# Goes down the tree of modules by recursion and puts the names together itself.

def placement(model, prefix=""):
    own = [*model.named_parameters(recurse=False), *model.named_buffers(recurse=False)]
    places = {prefix + name: str(tensor.device) for name, tensor in own}
    for name, child in model.named_children():
        places.update(placement(child, prefix + name + "."))
    return places


def torn_layers(model, name=""):
    own = {t.device for t in (*model.parameters(recurse=False), *model.buffers(recurse=False))}
    torn = [name] if len(own) > 1 else []
    for child_name, child in model.named_children():
        torn += torn_layers(child, f"{name}.{child_name}" if name else child_name)
    return torn


# %% right: zip_names_and_devices
# Makes the names and the device texts on their own, zips them, and warns when a model has nothing to place.

import warnings
from itertools import chain


def placement(model):
    tensors = dict(chain(model.named_parameters(), model.named_buffers()))
    if not tensors:
        warnings.warn("this model has nothing to place", stacklevel=2)
    texts = map(str, [tensor.device for tensor in tensors.values()])
    return dict(zip(tensors.keys(), texts, strict=True))


def torn_layers(model):
    def is_torn(layer):
        return len({t.device for t in chain(layer.parameters(False), layer.buffers(False))}) > 1

    return tuple(name for name, layer in model.named_modules() if is_torn(layer))


# %% wrong: frozen_left_out
# Thinks that a tensor which is not trained is no parameter, and leaves frozen ones out.

def placement(model):
    tensors = [*model.named_parameters(), *model.named_buffers()]
    buffers = dict(model.named_buffers())
    return {name: str(tensor.device) for name, tensor in tensors if tensor.requires_grad or name in buffers}


def torn_layers(model):
    torn = []
    for name, layer in model.named_modules():
        own = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
        if len({tensor.device for tensor in own}) > 1:
            torn.append(name)
    return torn


# %% wrong: model_itself_left_out
# Skips the first of named_modules(), the model itself, as if it had no parameters of its own.

def placement(model):
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {name: str(tensor.device) for name, tensor in tensors}


def torn_layers(model):
    torn = []
    for name, layer in model.named_modules():
        if not name:
            continue
        own = [*layer.parameters(recurse=False), *layer.buffers(recurse=False)]
        if len({tensor.device for tensor in own}) > 1:
            torn.append(name)
    return torn


# %% wrong: two_kinds_apart
# Looks at the parameters and at the buffers, each for itself: all weights here and all buffers there is missed.

def placement(model):
    places = {name: str(p.device) for name, p in model.named_parameters()}
    places.update({name: str(b.device) for name, b in model.named_buffers()})
    return places


def torn_layers(model):
    torn = []
    for name, module in model.named_modules():
        of_parameters = {p.device for p in module.parameters(recurse=False)}
        of_buffers = {b.device for b in module.buffers(recurse=False)}
        if len(of_parameters) > 1 or len(of_buffers) > 1:
            torn.append(name)
    return torn
