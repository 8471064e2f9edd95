"""Makes an empty tensor on the other device and copies into it."""

from torch.nn.utils import parameters_to_vector


def move_together(tensors, device):
    together = parameters_to_vector(tensors)
    there = torch.empty(len(together), device=device)
    there = there.copy_(together)
    return [p.view(t.shape) for p, t in zip(torch.split(there, [t.numel() for t in tensors]), tensors, strict=True)]
