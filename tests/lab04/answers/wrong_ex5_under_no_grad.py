"""Turns autograd off, because it is only a move."""


@torch.no_grad()
def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
