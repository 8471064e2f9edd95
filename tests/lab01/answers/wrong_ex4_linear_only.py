"""Thinks that every model is one linear layer, as in the example."""


def placement(model):
    return {"weight": str(model.weight.device), "bias": str(model.bias.device)}
