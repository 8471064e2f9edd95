# %% wrong: first_is_overwritten
# Thinks that .to always makes a copy, and adds into what it returned.

def sum_on(device, tensors):
    total = tensors[0].to(device)
    for tensor in tensors[1:]:
        total += tensor.to(device)
    return total


# %% wrong: copy_not_kept
# Thinks that .to moves a tensor in place.

def sum_on(device, tensors):
    total = torch.zeros_like(tensors[0], device=device)
    for tensor in tensors:
        tensor.to(device)
        total = total + tensor
    return total


# %% wrong: sum_stays_on_the_cpu
# Sums on the CPU, and leaves the sum there.

def sum_on(device, tensors):
    return sum(tensor.cpu() for tensor in tensors)


# %% wrong: devices_of_the_notebook
# Uses the second device of the notebook instead of the one that it is given.

def sum_on(device, tensors):
    total = torch.zeros_like(tensors[0], device="simgpu:1")
    for tensor in tensors:
        total = total + tensor.to("simgpu:1")
    return total


# %% wrong: first_counts_twice
# Begins with the first tensor, and adds it again in the loop.

def sum_on(device, tensors):
    total = tensors[0].to(device)
    for tensor in tensors:
        total = total + tensor.to(device)
    return total


# %% wrong: returned_in_the_loop
# Returns after the first tensor.

def sum_on(device, tensors):
    total = torch.zeros_like(tensors[0], device=device)
    for tensor in tensors:
        total = total + tensor.to(device)
        return total


# %% wrong: nothing_returned
# Forgets the return.

def sum_on(device, tensors):
    total = torch.zeros_like(tensors[0], device=device)
    for tensor in tensors:
        total = total + tensor.to(device)


# %% right: built_in_sum
# Python's sum begins with the number 0.

def sum_on(device, tensors):
    return sum(tensor.to(device) for tensor in tensors)


# %% right: stacked
# Moves all of them, stacks them, and sums along the new dimension.

def sum_on(device, tensors):
    moved = [tensor.to(device) for tensor in tensors]
    return torch.stack(moved).sum(dim=0)


# %% right: first_is_cloned
# Adds in place, into a copy of its own.

def sum_on(device, tensors):
    total = tensors[0].to(device).clone()
    for tensor in tensors[1:]:
        total += tensor.to(device)
    return total
