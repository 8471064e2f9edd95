"""With narrow, ravel and view_as the given tensors' sizes; returns a tuple."""


def move_together(tensors, device):
    sizes = [tensor.size() for tensor in tensors]
    together = torch.concatenate([tensor.ravel() for tensor in tensors]).to(device, non_blocking=True)
    starts = [sum(size.numel() for size in sizes[:number]) for number in range(len(sizes))]
    parts = (together.narrow(0, start, size.numel()) for start, size in zip(starts, sizes, strict=True))
    return tuple(part.view(size) for part, size in zip(parts, sizes, strict=True))
