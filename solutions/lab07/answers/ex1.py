# %% wrong: one_list_added_up
# Adds up one list of the whole model, so the activation at the cut counts on one device only.

def kept_on_each(layers, x, cut):
    kept = kept_by(layers, x)
    return sum(kept[:cut]), sum(kept[cut:])


# %% wrong: crossing_always_added
# Adds the activation at the cut to the second device, also where no layer there keeps it.

def kept_on_each(layers, x, cut):
    kept = kept_by(layers, x)
    with torch.no_grad():
        crossing = layers[:cut](x)
    return sum(kept[:cut]), sum(kept[cut:]) + crossing.nbytes


# %% wrong: detached
# Begins the second stage with a tensor that needs no gradient, so its first layers keep less.

def kept_on_each(layers, x, cut):
    part0, part1 = layers[:cut], layers[cut:]
    crossing = part0(x)
    return sum(kept_by(part0, x)), sum(kept_by(part1, crossing.detach()))


# %% wrong: x_into_both
# Gives the batch to both stages.

def kept_on_each(layers, x, cut):
    part0, part1 = layers[:cut], layers[cut:]
    return sum(kept_by(part0, x)), sum(kept_by(part1, x))


# %% wrong: one_number
# Returns the sum of both devices.

def kept_on_each(layers, x, cut):
    part0, part1 = layers[:cut], layers[cut:]
    crossing = part0(x)
    return sum(kept_by(part0, x)) + sum(kept_by(part1, crossing))


# %% wrong: devices_swapped
# Returns the numbers in the other order.

def kept_on_each(layers, x, cut):
    crossing = layers[:cut](x)
    return sum(kept_by(layers[cut:], crossing)), sum(kept_by(layers[:cut], x))


# %% wrong: outputs
# Counts the outputs of the layers, as if backward needed each of them.

def kept_on_each(layers, x, cut):
    sizes, hidden = [x.nbytes], x
    for layer in layers:
        hidden = layer(hidden)
        sizes.append(hidden.nbytes)
    return sum(sizes[: cut + 1]), sum(sizes[cut:])


# %% wrong: always_with_a_gradient
# Lets the activation at the cut need a gradient, also where nothing before it is trained.

def kept_on_each(layers, x, cut):
    part0, part1 = layers[:cut], layers[cut:]
    crossing = part0(x).detach().requires_grad_()
    return sum(kept_by(part0, x)), sum(kept_by(part1, crossing))


# %% wrong: parts_really_moved
# Counts rightly, and moves the layers that it was given to the two devices afterwards.

def kept_on_each(layers, x, cut):
    part0, part1 = layers[:cut], layers[cut:]
    crossing = part0(x)
    found = sum(kept_by(part0, x)), sum(kept_by(part1, crossing))
    part0.to(device0)
    part1.to(device1)
    return found


# %% right: hidden_by_hand
# Runs the layers of the first stage one by one.

def kept_on_each(layers, x, cut):
    hidden = x
    for layer in layers[:cut]:
        hidden = layer(hidden)
    first = sum(kept_by(layers[:cut], x))
    second = sum(kept_by(layers[cut:], hidden))
    return [first, second]


# %% right: own_hooks
# Does not use kept_by, and counts in a pack hook of its own.

def kept_on_each(layers, x, cut):
    totals = []
    owned = {t.untyped_storage().data_ptr() for t in [*layers.parameters(), *layers.buffers()]}
    for part in (layers[:cut], layers[cut:]):
        pieces = {}

        def pack(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in owned:
                pieces[memory.data_ptr()] = memory.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            x = part(x)
        totals.append(sum(pieces.values()))
    return tuple(totals)


# %% right: a_clone_crosses
# Lets a clone cross, as a copy would be a new tensor.

def kept_on_each(layers, x, cut):
    first, second = layers[:cut], layers[cut:]
    copied = first(x).clone()
    return (sum(kept_by(first, x)), sum(kept_by(second, copied)))


# %% wrong: stand_in_of_the_same_shape
# Makes a stand-in of the shape of the activation at the cut, which is in float32 whatever the layers are in.

def kept_on_each(layers, x, cut):
    part0, part1 = layers[:cut], layers[cut:]
    output = part0(x)
    crossing = torch.zeros(output.shape, requires_grad=output.requires_grad)
    return sum(kept_by(part0, x)), sum(kept_by(part1, crossing))
