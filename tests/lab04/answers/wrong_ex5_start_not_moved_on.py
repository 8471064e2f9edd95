"""Cuts every tensor from the beginning of the long one."""


def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    return [together[: tensor.numel()].view(tensor.shape) for tensor in tensors]
