"""One dict comprehension over the named parameters."""


def placement(model):
    return {name: str(parameter.device) for name, parameter in model.named_parameters()}
