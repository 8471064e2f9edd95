"""Returns the one long tensor."""


def move_together(tensors, device):
    return torch.cat([tensor.flatten() for tensor in tensors]).to(device)
