# %% wrong: every_tensor
# Adds up every tensor that is saved, so what two layers share counts twice, and weights count, too.

def kept_by(layers, x):
    kept = []
    for layer in layers:
        sizes = []

        def note(tensor):
            sizes.append(tensor.nbytes)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
        kept.append(sum(sizes))
    return kept


# %% wrong: the_outputs
# Thinks that backward needs the output of each layer, and nothing else.

def kept_by(layers, x):
    kept = []
    for layer in layers:
        x = layer(x)
        kept.append(x.numel() * x.element_size())
    return kept


# %% wrong: weights_too
# Counts each piece of memory once, and the weights among them.

def kept_by(layers, x):
    seen, kept = set(), []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:
                seen.add(memory.data_ptr())
                kept[-1] += memory.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


# %% wrong: by_shape
# Thinks that tensors of the same shape are the same tensor.

def kept_by(layers, x):
    seen = {tuple(p.shape) for p in layers.parameters()} | {tuple(b.shape) for b in layers.buffers()}
    kept = []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            if tuple(tensor.shape) not in seen:
                seen.add(tuple(tensor.shape))
                kept[-1] += tensor.nbytes
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


# %% wrong: forgotten_for_the_next_layer
# Begins a new set for each layer, so the next layer counts the same memory again.

def kept_by(layers, x):
    kept = []
    for layer in layers:
        seen = {p.untyped_storage().data_ptr() for p in [*layers.parameters(), *layers.buffers()]}
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:
                seen.add(memory.data_ptr())
                kept[-1] += memory.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


# %% wrong: one_number
# Returns the sum of all layers.

def kept_by(layers, x):
    own = {p.untyped_storage().data_ptr() for p in [*layers.parameters(), *layers.buffers()]}
    found = {}

    def note(tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in own:
            found[memory.data_ptr()] = memory.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        layers(x)
    return sum(found.values())


# %% wrong: hook_returns_nothing
# Writes down what it sees, and gives autograd nothing to keep.

def kept_by(layers, x):
    seen = {p.untyped_storage().data_ptr() for p in [*layers.parameters(), *layers.buffers()]}
    kept = []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:
                seen.add(memory.data_ptr())
                kept[-1] += tensor.numel()

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


# %% wrong: memory_let_go
# Returns nothing from pack, so the memory goes, and its address is soon another tensor's.

def kept_by(layers, x):
    seen = {p.untyped_storage().data_ptr() for p in [*layers.parameters(), *layers.buffers()]}
    kept = []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:
                seen.add(memory.data_ptr())
                kept[-1] += memory.nbytes()

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


# %% wrong: shape_kept
# Returns only the shape from pack, because the values are not needed.

def kept_by(layers, x):
    seen = {p.untyped_storage().data_ptr() for p in [*layers.parameters(), *layers.buffers()]}
    kept = []
    for layer in layers:
        kept.append(0)

        def note(tensor):
            memory = tensor.untyped_storage()
            if memory.data_ptr() not in seen:
                seen.add(memory.data_ptr())
                kept[-1] += memory.nbytes()
            return tensor.shape

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            x = layer(x)
    return kept


# %% right: a_dict_by_place
# Collects the pieces of each layer in a dict, and takes away what is known.

def kept_by(layers, x):
    known = set()
    for tensor in list(layers.parameters()) + list(layers.buffers()):
        known.add(tensor.untyped_storage().data_ptr())
    result = []
    for layer in layers:
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
            x = layer(x)
        pieces = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
        result.append(sum(size for place, size in pieces.items() if place not in known))
        known.update(pieces)
    return result


# %% right: one_pass_with_a_number
# Runs the layers in one go, and a pre-hook says which layer is at work.

def kept_by(layers, x):
    kept, seen, now = [0] * len(layers), {}, [0]
    for p in [*layers.parameters(), *layers.buffers()]:
        seen[p.untyped_storage().data_ptr()] = True
    handles = [
        layer.register_forward_pre_hook(lambda m, i, number=number: now.__setitem__(0, number))
        for number, layer in enumerate(layers)
    ]

    def pack(t):
        s = t.untyped_storage()
        if s.data_ptr() not in seen:
            seen[s.data_ptr()] = True
            kept[now[0]] += len(s)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        layers(x)
    for handle in handles:
        handle.remove()
    return kept
