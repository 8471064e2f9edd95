"""Goes through the CPU, in two copies."""


def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).cpu().to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
