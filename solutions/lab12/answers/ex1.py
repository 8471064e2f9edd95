# %% wrong: parameters_counted_once
# Thinks of the weights only, and forgets that training needs a gradient for each of them.

def what_fills(parameters, copies, technique, mixed=False):
    count = sum(p.numel() for p in parameters)
    size = 2 if mixed else 4
    state = sum(p.numel() for p in parameters if p.requires_grad) * (12 if mixed else 8)
    if technique != "copies":
        state = state // copies
    if technique == "weights":
        count = count // copies
    return {"weights": count * size, "gradients": 0, "optimizer state": state}


# %% wrong: rounded_down
# Divides with //, so that what does not divide is on no device.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    size = 2 if mixed else 4
    found = {"weights": 0, "gradients": 0, "optimizer state": 0}
    for p in parameters:
        n, shard = p.numel(), p.numel() // copies
        found["weights"] += size * (shard if level == 3 else n)
        if p.requires_grad:
            found["gradients"] += size * (shard if level >= 2 else n)
            found["optimizer state"] += (12 if mixed else 8) * (shard if level >= 1 else n)
    return found


# %% wrong: rounds_the_sum
# Cuts all parameters as one, and not each by itself: the sum is rounded up once.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    size = 2 if mixed else 4
    every = sum(p.numel() for p in parameters)
    trained = sum(p.numel() for p in parameters if p.requires_grad)

    def shard(n, from_level):
        return -(-n // copies) if level >= from_level else n

    return {
        "weights": size * shard(every, 3),
        "gradients": size * shard(trained, 2),
        "optimizer state": (12 if mixed else 8) * shard(trained, 1),
    }


# %% wrong: frozen_is_trained
# Does not look whether a parameter is trained.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    whole = sum(p.numel() for p in parameters)
    shard = sum(-(-p.numel() // copies) for p in parameters)
    small = 2 if mixed else 4
    return {
        "weights": small * (shard if level > 2 else whole),
        "gradients": small * (shard if level > 1 else whole),
        "optimizer state": (12 if mixed else 8) * (shard if level > 0 else whole),
    }


# %% wrong: frozen_is_whole
# Thinks that frozen weights are not cut, because nothing of them is sent back.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    size = 2 if mixed else 4
    found = {"weights": 0, "gradients": 0, "optimizer state": 0}
    for p in parameters:
        n, shard = p.numel(), -(-p.numel() // copies)
        if not p.requires_grad:
            found["weights"] += size * n
            continue
        found["weights"] += size * (shard if level == 3 else n)
        found["gradients"] += size * (shard if level >= 2 else n)
        found["optimizer state"] += (12 if mixed else 8) * (shard if level >= 1 else n)
    return found


# %% wrong: half_of_everything
# Thinks that mixed precision halves all: the state, too, and needs no copy of the weights.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    size = 2 if mixed else 4
    found = {"weights": 0, "gradients": 0, "optimizer state": 0}
    for p in parameters:
        n, shard = p.numel(), -(-p.numel() // copies)
        found["weights"] += size * (shard if level == 3 else n)
        if p.requires_grad:
            found["gradients"] += size * (shard if level >= 2 else n)
            found["optimizer state"] += 2 * size * (shard if level >= 1 else n)
    return found


# %% wrong: no_copy_in_float32
# Keeps the two moments in float32, and forgets the float32 copy of the weights.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    size = 2 if mixed else 4
    found = {"weights": 0, "gradients": 0, "optimizer state": 0}
    for p in parameters:
        n, shard = p.numel(), -(-p.numel() // copies)
        found["weights"] += size * (shard if level == 3 else n)
        if p.requires_grad:
            found["gradients"] += size * (shard if level >= 2 else n)
            found["optimizer state"] += 8 * (shard if level >= 1 else n)
    return found


# %% wrong: only_what_is_named
# Cuts what the technique is called after, and nothing else: with "weights" the state is whole.

def what_fills(parameters, copies, technique, mixed=False):
    size = 2 if mixed else 4
    each = {"weights": size, "gradients": size, "optimizer state": 12 if mixed else 8}
    found = {}
    for kind, number_of_bytes in each.items():
        found[kind] = 0
        for p in parameters:
            if kind == "weights" or p.requires_grad:
                n = -(-p.numel() // copies) if kind == technique else p.numel()
                found[kind] += number_of_bytes * n
    return found


# %% wrong: cut_from_the_start
# Cuts the state with "copies" too: counts what one device would need for its share of the batch.

def what_fills(parameters, copies, technique, mixed=False):
    size = 2 if mixed else 4
    weights = gradients = state = 0
    for p in parameters:
        shard = -(-p.numel() // copies)
        weights += size * (shard if technique == "weights" else p.numel())
        if p.requires_grad:
            gradients += size * (shard if technique in ("weights", "gradients") else p.numel())
            state += (12 if mixed else 8) * shard
    return {"weights": weights, "gradients": gradients, "optimizer state": state}


# %% wrong: counts_elements
# Returns numbers, not bytes.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    found = {"weights": 0, "gradients": 0, "optimizer state": 0}
    for p in parameters:
        n, shard = p.numel(), -(-p.numel() // copies)
        found["weights"] += shard if level == 3 else n
        if p.requires_grad:
            found["gradients"] += shard if level >= 2 else n
            found["optimizer state"] += (3 if mixed else 2) * (shard if level >= 1 else n)
    return found


# %% right: by_a_table
# A table of bytes, and one of what each technique cuts.

import math


def what_fills(parameters, copies, technique, mixed=False):
    sizes = {"weights": 4, "gradients": 4, "optimizer state": 8}
    if mixed:
        sizes = {"weights": 2, "gradients": 2, "optimizer state": 12}
    cut = {
        "copies": set(),
        "optimizer state": {"optimizer state"},
        "gradients": {"optimizer state", "gradients"},
        "weights": {"optimizer state", "gradients", "weights"},
    }[technique]
    found = dict.fromkeys(sizes, 0)
    for parameter in parameters:
        for kind, size in sizes.items():
            if parameter.requires_grad or kind == "weights":
                pieces = copies if kind in cut else 1
                found[kind] += size * math.ceil(parameter.numel() / pieces)
    return found


# %% right: with_chunks
# Lets PyTorch cut, and looks at the first shard.

def what_fills(parameters, copies, technique, mixed=False):
    parameters = list(parameters)
    trained = [p for p in parameters if p.requires_grad]

    def numbers(tensors, is_cut):
        if not is_cut:
            return sum(t.numel() for t in tensors)
        return sum(t.detach().flatten().tensor_split(copies)[0].numel() for t in tensors)

    low = 2 if mixed else 4
    return {
        "weights": low * numbers(parameters, technique == "weights"),
        "gradients": low * numbers(trained, technique in ("gradients", "weights")),
        "optimizer state": (12 if mixed else 8) * numbers(trained, technique != "copies"),
    }


# %% right: with_tensors_that_hold_nothing
# Makes the tensors on the meta device and asks each for its bytes.

def what_fills(parameters, copies, technique, mixed=False):
    level = ("copies", "optimizer state", "gradients", "weights").index(technique)
    low = torch.bfloat16 if mixed else torch.float32

    def held(p, cut_from, *dtypes):
        n = (p.numel() + copies - 1) // copies if level >= cut_from else p.numel()
        return sum(torch.empty(n, dtype=dtype, device="meta").nbytes for dtype in dtypes)

    state = [torch.float32] * (3 if mixed else 2)
    total = {"optimizer state": 0, "gradients": 0, "weights": 0}
    for p in parameters:
        total["weights"] += held(p, 3, low)
        if p.requires_grad:
            total["gradients"] += held(p, 2, low)
            total["optimizer state"] += held(p, 1, *state)
    return total


# %% right: floats_returned
# Ends with floats, which are whole.

def what_fills(parameters, copies, technique, mixed=False):
    parts = {"copies": (1, 1, 1), "optimizer state": (1, 1, copies), "gradients": (1, copies, copies)}
    w, g, s = parts.get(technique, (copies, copies, copies))
    b, k = (2.0, 12.0) if mixed else (4.0, 8.0)
    weights = sum(b * ((p.numel() - 1) // w + 1) for p in parameters)
    gradients = sum(b * ((p.numel() - 1) // g + 1) for p in parameters if p.requires_grad)
    state = sum(k * ((p.numel() - 1) // s + 1) for p in parameters if p.requires_grad)
    return {"weights": weights, "gradients": gradients, "optimizer state": state}


# %% wrong: frozen_weights_in_float32
# Thinks that frozen weights stay in float32 in mixed precision, because nothing is added to them.

def what_fills(parameters, copies, technique, mixed=False):
    level = ["copies", "optimizer state", "gradients", "weights"].index(technique)
    sizes = {"weights": (2 if mixed else 4, 3), "gradients": (2 if mixed else 4, 2)}
    sizes["optimizer state"] = (12 if mixed else 8, 1)
    found = dict.fromkeys(sizes, 0)
    for p in parameters:
        for kind, (size, cut_from) in sizes.items():
            if kind == "weights" or p.requires_grad:
                count = -(-p.numel() // copies) if level >= cut_from else p.numel()
                frozen = kind == "weights" and not p.requires_grad
                found[kind] += (4 if frozen else size) * count
    return found
