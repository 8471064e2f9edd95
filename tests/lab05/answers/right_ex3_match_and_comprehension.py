"""Two comprehensions and a match statement, with a warning."""

import warnings


def training_memory(model, optimizer):
    match optimizer:
        case "sgd":
            states = 0
        case "momentum":
            states = 1
        case _:
            states = 2
    warnings.warn("Adam's step counter is left out")
    parameters = list(model.parameters())
    devices = {parameter.device for parameter in parameters}
    return {
        str(device): sum(
            p.numel() * p.element_size() * (1 + p.requires_grad * (1 + states))
            for p in parameters
            if p.device == device
        )
        for device in devices
    }
