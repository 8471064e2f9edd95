"""Reads the devices from the state dict, without the buffers."""


def placement(model):
    buffers = {name for name, _ in model.named_buffers()}
    return {name: str(tensor.device) for name, tensor in model.state_dict().items() if name not in buffers}
