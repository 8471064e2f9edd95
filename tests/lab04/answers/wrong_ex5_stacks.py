"""Thinks that all have one shape."""


def move_together(tensors, device):
    return list(torch.stack(tensors).to(device))
