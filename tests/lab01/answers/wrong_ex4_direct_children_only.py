"""Thinks that a model has no more than one level, and looks no deeper than at its direct children."""


def placement(model):
    places = {}
    for name, parameter in model.named_parameters(recurse=False):
        places[name] = str(parameter.device)
    for child_name, child in model.named_children():
        for name, parameter in child.named_parameters(recurse=False):
            places[f"{child_name}.{name}"] = str(parameter.device)
    return places
