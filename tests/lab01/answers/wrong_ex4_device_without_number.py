"""Thinks that the kind of a device is its name, so all the GPUs look the same."""


def placement(model):
    return {name: parameter.device.type for name, parameter in model.named_parameters()}
