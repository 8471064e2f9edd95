"""Thinks that everything in the state dict is a parameter, so buffers are listed too."""


def placement(model):
    return {name: str(tensor.device) for name, tensor in model.state_dict().items()}
