"""Joins them after the move."""


def move_together(tensors, device):
    together = torch.cat([tensor.flatten().to(device) for tensor in tensors])
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
