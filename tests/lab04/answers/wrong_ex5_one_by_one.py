"""Moves each by itself."""


def move_together(tensors, device):
    return [tensor.to(device) for tensor in tensors]
