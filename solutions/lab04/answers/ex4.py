# %% wrong: cut_in_equal_parts
# Cuts the long tensor into parts of the same length.

def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    parts = together.chunk(len(tensors))
    return list(parts)


# %% wrong: detached
# Cuts the autograd graph.

def move_together(tensors, device):
    together = torch.cat([tensor.detach().flatten() for tensor in tensors]).to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


# %% wrong: moved_before_joined
# Joins them after the move.

def move_together(tensors, device):
    together = torch.cat([tensor.flatten().to(device) for tensor in tensors])
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


# %% wrong: one_by_one
# Moves each by itself.

def move_together(tensors, device):
    return [tensor.to(device) for tensor in tensors]


# %% wrong: one_tensor_back
# Returns the one long tensor.

def move_together(tensors, device):
    return torch.cat([tensor.flatten() for tensor in tensors]).to(device)


# %% wrong: stacks
# Thinks that all have one shape.

def move_together(tensors, device):
    return list(torch.stack(tensors).to(device))


# %% wrong: start_not_moved_on
# Cuts every tensor from the beginning of the long one.

def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    return [together[: tensor.numel()].view(tensor.shape) for tensor in tensors]


# %% wrong: stays_flat
# Forgets the shapes.

def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    return list(together.split([tensor.numel() for tensor in tensors]))


# %% wrong: through_the_cpu
# Goes through the CPU, in two copies.

def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).cpu().to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


# %% wrong: to_without_keeping
# Forgets that .to gives a copy and leaves the tensor alone.

def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors])
    together.to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


# %% wrong: under_no_grad
# Turns autograd off, because it is only a move.

@torch.no_grad()
def move_together(tensors, device):
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


# %% wrong: the_default_dtype
# Gives the numbers the dtype that torch.empty has by default.

def move_together(tensors, device):
    counts = [tensor.numel() for tensor in tensors]
    like = torch.empty(0, device=tensors[0].device)
    pieces = torch.cat([tensor.reshape(-1).type_as(like) for tensor in tensors]).to(device).split(counts)
    return [piece.reshape(tensor.shape) for piece, tensor in zip(pieces, tensors)]


# %% wrong: empty_tensors_left_out
# Thinks that a tensor without numbers is none to move, and leaves it out.

def move_together(tensors, device):
    full = [tensor for tensor in tensors if tensor.numel()]
    together = torch.cat([tensor.reshape(-1) for tensor in full]).to(device)
    parts = torch.split(together, [tensor.numel() for tensor in full])
    return [part.reshape(tensor.shape) for part, tensor in zip(parts, full)]


# %% right: copy_into_empty
# Makes an empty tensor on the other device and copies into it.

from torch.nn.utils import parameters_to_vector


def move_together(tensors, device):
    together = parameters_to_vector(tensors)
    there = torch.empty(len(together), device=device, dtype=together.dtype)
    there = there.copy_(together)
    return [p.view(t.shape) for p, t in zip(torch.split(there, [t.numel() for t in tensors]), tensors, strict=True)]


# %% right: narrow_and_unflatten
# With narrow, ravel and view_as the given tensors' sizes; returns a tuple.

def move_together(tensors, device):
    sizes = [tensor.size() for tensor in tensors]
    together = torch.concatenate([tensor.ravel() for tensor in tensors]).to(device, non_blocking=True)
    starts = [sum(size.numel() for size in sizes[:number]) for number in range(len(sizes))]
    parts = (together.narrow(0, start, size.numel()) for start, size in zip(starts, sizes, strict=True))
    return tuple(part.view(size) for part, size in zip(parts, sizes, strict=True))


# %% right: padded
# Pads the tensors to one length, so that they are copied as one tensor.

def move_together(tensors, device):
    padded = nn.utils.rnn.pad_sequence([tensor.flatten() for tensor in tensors], batch_first=True).to(device)
    return [row[: tensor.numel()].view(tensor.shape) for row, tensor in zip(padded, tensors, strict=True)]


# %% right: slices
# With slices and a running start.

def move_together(tensors, device):
    flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
    flat = flat.to(device)
    moved, start = [], 0
    for tensor in tensors:
        stop = start + tensor.numel()
        moved.append(flat[start:stop].reshape(tensor.shape))
        start = stop
    print("moved", len(moved), "in one copy")
    return moved


# %% wrong: one_tensor_alone
# Gives a single tensor back as it is, not in a list.

def move_together(tensors, device):
    if len(tensors) == 1:
        return tensors[0].to(device)
    together = torch.cat([tensor.flatten() for tensor in tensors]).to(device)
    parts = together.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]
