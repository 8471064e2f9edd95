"""Thinks that printing a result is the same as returning it."""


def placement(model):
    places = {}
    for name, parameter in model.named_parameters():
        places[name] = str(parameter.device)
    print(places)
