"""Thinks that every parameter has a gradient after backward."""

def gradient_report(model):
    return {name: str(parameter.grad.device) for name, parameter in model.named_parameters()}
