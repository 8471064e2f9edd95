# %% wrong: joined_by_cat
# Appends with torch.cat, so each update copies all that is there.

def layer_cache(weight, sequences, longest, size):
    kept = []

    def update(k, v):
        kept[:] = [torch.cat([kept[0], k], 2), torch.cat([kept[1], v], 2)] if kept else [k, v]
        return kept[0], kept[1]

    return update


# %% wrong: on_the_cpu
# Allocates on the default device.

def layer_cache(weight, sequences, longest, size):
    keys = torch.zeros(sequences, weight.shape[0] // size, longest, size)
    values = torch.zeros_like(keys)
    length = 0

    def update(k, v):
        nonlocal length
        start, length = length, length + k.shape[2]
        keys[:, :, start:length] = k
        values[:, :, start:length] = v
        return keys[:, :, :length], values[:, :, :length]

    return update


# %% wrong: in_float32
# Takes the weight's device and not its dtype.

def layer_cache(weight, sequences, longest, size):
    keys = torch.zeros(sequences, weight.shape[0] // size, longest, size, device=weight.device)
    values = torch.zeros_like(keys)
    length = 0

    def update(k, v):
        nonlocal length
        start, length = length, length + k.shape[2]
        keys[:, :, start:length] = k
        values[:, :, start:length] = v
        return keys[:, :, :length], values[:, :, :length]

    return update


# %% wrong: always_from_the_start
# Writes each update over the first tokens.

def layer_cache(weight, sequences, longest, size):
    keys = weight.new_zeros(sequences, weight.shape[0] // size, longest, size)
    values = torch.zeros_like(keys)

    def update(k, v):
        keys[:, :, : k.shape[2]] = k
        values[:, :, : k.shape[2]] = v
        return keys[:, :, : k.shape[2]], values[:, :, : k.shape[2]]

    return update


# %% wrong: returns_the_empty_part
# Returns all that was allocated, zeros included.

def layer_cache(weight, sequences, longest, size):
    keys = weight.new_zeros(sequences, weight.shape[0] // size, longest, size)
    values = torch.zeros_like(keys)
    length = 0

    def update(k, v):
        nonlocal length
        keys[:, :, length : length + k.shape[2]] = k
        values[:, :, length : length + k.shape[2]] = v
        length += k.shape[2]
        return keys, values

    return update


# %% wrong: one_tensor_under_two_names
# Values overwrite keys.

def layer_cache(weight, sequences, longest, size):
    keys = values = weight.new_zeros(sequences, weight.shape[0] // size, longest, size)
    length = 0

    def update(k, v):
        nonlocal length
        start, length = length, length + k.shape[2]
        keys[:, :, start:length] = k
        values[:, :, start:length] = v
        return keys[:, :, :length], values[:, :, :length]

    return update


# %% wrong: nothing_returned
# Forgets to return update.

def layer_cache(weight, sequences, longest, size):
    keys = weight.new_zeros(sequences, weight.shape[0] // size, longest, size)
    values = torch.zeros_like(keys)


# %% right: both_in_one_tensor
# One tensor for keys and values, written by narrow and copy_.

def layer_cache(weight, sequences, longest, size):
    both = weight.new_zeros(2, sequences, weight.shape[0] // size, longest, size).detach()
    state = {"length": 0}

    def update(k, v):
        for kept, new in zip(both, (k, v)):
            kept.narrow(2, state["length"], new.shape[2]).copy_(new)
        state["length"] += k.shape[2]
        return tuple(kept.narrow(2, 0, state["length"]) for kept in both)

    return update
