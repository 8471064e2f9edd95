# %% wrong: activations_only
# Counts only activations.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(sizes[: cut + 1])
        need1 = sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: adam_forgotten
# Counts parameters and gradients, and forgets what Adam keeps.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(2 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: all_cuts_from_zero
# Also tries the cuts that leave a device without layers.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(len(layers) + 1):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: batch_on_both
# Thinks that both devices get the batch.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sizes[0] + sum(sizes[cut + 1 :])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: copy_forgotten
# Thinks that what crosses the cut is on one device only.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut + 1 :])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: cut_one_off
# Puts one layer too many on the first device.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[: cut + 1]) + sum(sizes[: cut + 2])
        need1 = sum(weights[cut + 1 :]) + sum(sizes[cut + 1 :])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: exactly_enough_is_too_little
# Thinks that exactly enough room is not enough.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 < room0 and need1 < room1:
            found.append(cut)
    return found


# %% wrong: first_only
# Returns the first cut that fits.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            return [cut]
    return found


# %% wrong: four_bytes_always
# Thinks that every number has four bytes.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * 4 for p in layer.parameters()))
    sizes = [t.numel() * 4 for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: input_forgotten
# Counts outputs only, and forgets the input of each device.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[1 : cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut + 1 :])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: largest_first
# Lists the largest first.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found[::-1]


# %% wrong: largest_output_only
# Counts the largest activation only, as if each could go when the next is there.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + max(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + max(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: numbers_not_bytes
# Counts numbers, not bytes.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() for p in layer.parameters()))
    sizes = [t.numel() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: one_image
# Counts the activations of one example, not of the batch.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x[:1]], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: parameters_once
# Counts each parameter once, as if the model were not trained.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: parameters_only
# Counts only what belongs to parameters, and no activations.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut])
        need1 = sum(weights[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% wrong: rooms_together
# Thinks that two devices have one memory together.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 + need1 <= room0 + room1:
            found.append(cut)
    return found


# %% right: inputs_and_outputs
# One list of tensors: the input, and the output of each layer.

def cuts_that_fit(layers, x, room0, room1):
    inputs, weights = [x], []
    with torch.no_grad():
        for layer in layers:
            inputs.append(layer(inputs[-1]))
            weights.append(4 * sum(p.numel() * p.element_size() for p in layer.parameters()))
    sizes = [t.numel() * t.element_size() for t in inputs]
    found = []
    for cut in range(1, len(layers)):
        need0 = sum(weights[:cut]) + sum(sizes[: cut + 1])
        need1 = sum(weights[cut:]) + sum(sizes[cut:])
        if need0 <= room0 and need1 <= room1:
            found.append(cut)
    return found


# %% right: on_meta
# Learns the sizes on PyTorch's meta device, on copies of the layers, with hooks.

import copy


def cuts_that_fit(layers, x, room0, room1):
    ghost = copy.deepcopy(layers).to("meta")
    outputs = []
    for layer in ghost:
        layer.register_forward_hook(lambda module, inputs, output: outputs.append(output.nbytes))
    ghost(x.to("meta"))
    crossing = [x.nbytes, *outputs]
    memory = [4 * sum(p.nbytes for p in layer.parameters()) + out for layer, out in zip(layers, outputs)]
    fits = lambda cut: crossing[0] + sum(memory[:cut]) <= room0 and crossing[cut] + sum(memory[cut:]) <= room1
    return list(filter(fits, range(1, len(layers))))


# %% right: parts_one_by_one
# Runs both parts anew for each cut.

def bytes_of(part, x):
    total = x.numel() * x.element_size()
    for layer in part:
        x = layer(x)
        total += x.numel() * x.element_size()
        for parameter in layer.parameters():
            total += 4 * parameter.numel() * parameter.element_size()
    return total, x.detach()


def cuts_that_fit(layers, x, room0, room1):
    cuts = []
    for cut in range(1, len(layers)):
        need0, hidden = bytes_of(layers[:cut], x)
        need1, _ = bytes_of(layers[cut:], hidden)
        if need0 <= room0 and need1 <= room1:
            cuts.append(cut)
    return cuts
