# %% wrong: buffers_too
# Thinks that everything in the state dict is a parameter, so buffers are listed too.

def placement(model):
    return {name: str(tensor.device) for name, tensor in model.state_dict().items()}


# %% wrong: device_objects
# Thinks that a torch.device is text, because it prints like text.

def placement(model):
    return {name: parameter.device for name, parameter in model.named_parameters()}


# %% wrong: device_without_number
# Thinks that the kind of a device is its name, so all the GPUs look the same.

def placement(model):
    return {name: parameter.device.type for name, parameter in model.named_parameters()}


# %% wrong: direct_children_only
# Thinks that a model has no more than one level, and looks no deeper than at its direct children.

def placement(model):
    places = {}
    for name, parameter in model.named_parameters(recurse=False):
        places[name] = str(parameter.device)
    for child_name, child in model.named_children():
        for name, parameter in child.named_parameters(recurse=False):
            places[f"{child_name}.{name}"] = str(parameter.device)
    return places


# %% wrong: first_parameter_for_all
# Thinks that a model is on one device, so the device of the first parameter is the device of all.

def placement(model):
    device = str(next(model.parameters()).device)
    return {name: device for name, _ in model.named_parameters()}


# %% wrong: last_part_of_name
# Thinks that the last part of a name is enough, so one weight overwrites the other.

def placement(model):
    places = {}
    for name, parameter in model.named_parameters():
        short_name = name.split(".")[-1]
        places[short_name] = str(parameter.device)
    return places


# %% wrong: linear_only
# Thinks that every model is one linear layer, as in the example.

def placement(model):
    return {"weight": str(model.weight.device), "bias": str(model.bias.device)}


# %% wrong: one_entry_per_layer
# Thinks that layers have devices and parameters do not, and gives one entry for each layer.

def placement(model):
    places = {}
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        if own:
            places[name] = str(own[0].device)
    return places


# %% wrong: prints_only
# Thinks that printing a result is the same as returning it.

def placement(model):
    places = {}
    for name, parameter in model.named_parameters():
        places[name] = str(parameter.device)
    print(places)


# %% wrong: trainable_only
# Thinks that frozen parameters are no parameters.

def placement(model):
    return {name: str(p.device) for name, p in model.named_parameters() if p.requires_grad}


# %% right: comprehension
# One dict comprehension over the named parameters.

def placement(model):
    return {name: str(parameter.device) for name, parameter in model.named_parameters()}


# %% right: loop_and_print
# A plain loop with an f-string for the text, which also prints the table.

def placement(model):
    where = {}
    for name, parameter in model.named_parameters():
        where[name] = f"{parameter.device}"
        print(f"{name:<20} {where[name]}")
    return where


# %% right: recursion
# Goes down the tree of modules by recursion and puts the names together itself.

def placement(model, prefix=""):
    places = {prefix + name: str(p.device) for name, p in model.named_parameters(recurse=False)}
    for name, child in model.named_children():
        places.update(placement(child, prefix + name + "."))
    return places


# %% right: state_dict_filtered
# Reads the devices from the state dict, without the buffers.

def placement(model):
    buffers = {name for name, _ in model.named_buffers()}
    return {name: str(tensor.device) for name, tensor in model.state_dict().items() if name not in buffers}


# %% right: zip_names_and_devices
# Makes the names and the device texts on their own, zips them, and warns when a model has no parameters.

import warnings


def placement(model):
    parameters = dict(model.named_parameters())
    if not parameters:
        warnings.warn("this model has no parameters", stacklevel=2)
    texts = map(str, [p.device for p in parameters.values()])
    return dict(zip(parameters.keys(), texts, strict=True))
