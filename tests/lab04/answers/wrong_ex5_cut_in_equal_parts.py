"""Cuts the long tensor into parts of the same length."""


def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    parts = together.chunk(len(tensors))
    return list(parts)
