"""Thinks that frozen parameters are no parameters."""


def placement(model):
    return {name: str(p.device) for name, p in model.named_parameters() if p.requires_grad}
