"""Reads the device of the parameter, which it has with and without a gradient."""

def gradient_report(model):
    return {name: str(parameter.device) if parameter.requires_grad else "frozen" for name, parameter in model.named_parameters()}
