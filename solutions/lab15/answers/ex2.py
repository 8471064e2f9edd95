# %% wrong: weights_counted
# Counts all storages that are saved, those of the weights too.

def kept_bytes(block, x):
    kept = {}

    def pack(tensor):
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: each_save_counted
# Adds up the bytes whenever a tensor is saved.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    total = 0

    def pack(tensor):
        nonlocal total
        if tensor.untyped_storage().data_ptr() not in weights:
            total += tensor.numel() * tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        block(x)
    return total


# %% wrong: no_parameters_by_class
# Skips what is an nn.Parameter. A linear layer saves a view of its weight, which is none.

def kept_bytes(block, x):
    kept = {}

    def pack(tensor):
        if not isinstance(tensor, nn.Parameter):
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = block(x)
    return sum(kept.values())


# %% wrong: weights_by_shape
# Skips what has the shape of a parameter. A linear layer saves its weight transposed.

def kept_bytes(block, x):
    shapes = [tuple(p.shape) for p in block.parameters()]
    saved = {}

    def pack(tensor):
        if tuple(tensor.shape) not in shapes:
            saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        out = block(x)
    return sum(saved.values())


# %% wrong: identity_of_tensors
# Knows tensors again by id. Two views of one storage are two tensors.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        if tensor.untyped_storage().data_ptr() not in weights:
            kept[id(tensor)] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        block(x)
    return sum(tensor.nbytes for tensor in kept.values())


# %% wrong: size_of_the_view
# Knows storages again, but counts the numbers of the view: a head on the last token seems to keep one token.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:
            kept[address] = max(tensor.numel() * tensor.element_size(), kept.get(address, 0))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: addresses_of_views
# Takes data_ptr() of the tensor for the address of its storage. Views of one storage begin at different places.

def kept_bytes(block, x):
    weights = {p.data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: numbers_not_bytes
# Counts numbers.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: four_bytes_a_number
# Takes each number for float32.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = 4 * storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: outputs_of_layers
# Adds up what the layers return, by forward hooks. Not every output is kept, and operators without a layer keep some.

def kept_bytes(block, x):
    sizes, handles = [], []
    for layer in block.modules():
        if not list(layer.children()):
            handles.append(layer.register_forward_hook(lambda module, inputs, output: sizes.append(output.nbytes)))
    block(x)
    for handle in handles:
        handle.remove()
    return sum(sizes)


# %% wrong: input_left_out
# Leaves the input out, because an earlier block made it.

def kept_bytes(block, x):
    others = {tensor.untyped_storage().data_ptr() for tensor in [x, *block.parameters()]}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in others:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: measured_without_autograd
# Measures under no_grad, so that nothing is changed. Then nothing is saved either.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.no_grad(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        block(x)
    return sum(kept.values())


# %% wrong: weights_subtracted
# Subtracts the bytes of all parameters at the end. Biases and the weights of some layers are not saved.

def kept_bytes(block, x):
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values()) - sum(p.nbytes for p in block.parameters())


# %% wrong: runs_the_backward_pass
# Runs the backward pass too, and leaves gradients behind.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        block(x).sum().backward()
    return sum(kept.values())


# %% wrong: evaluation_mode
# Puts the block into evaluation mode to measure, and leaves it there.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    block.eval()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: a_list_outside
# Collects what is saved in a list that all calls share.

saved = []


def kept_bytes(block, x):
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda tensor: tensor):
        output = block(x)
    weights = {p.untyped_storage().data_ptr() for p in block.parameters()}
    storages = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in saved}
    return sum(storage.nbytes() for address, storage in storages.items() if address not in weights)


# %% wrong: numbers_of_views
# Counts the bytes of each view, at its own address: a head on the last token seems to keep one token.

def kept_bytes(block, x):
    weights = {p.data_ptr() for p in block.parameters()}
    kept = {}

    def pack(tensor):
        if tensor.data_ptr() not in weights:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: frozen_weights_counted
# Takes the parameters that are trained for all parameters. A frozen weight is saved for the gradient of the input.

def kept_bytes(block, x):
    weights = {p.untyped_storage().data_ptr() for p in block.parameters() if p.requires_grad}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = block(x)
    return sum(kept.values())


# %% wrong: parameters_by_tensor_address
# Compares the addresses at which tensors begin, so the second half of a weight is no weight.

def kept_bytes(block, x):
    kept = {}
    parameters = {p.data_ptr() for p in block.parameters()}

    def pack(tensor):
        if tensor.data_ptr() not in parameters:
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        block(x)
    return sum(kept.values())


# %% wrong: parameters_by_shape
# Leaves out tensors with the shape of a parameter or its transpose. An activation may have that shape.

def kept_bytes(block, x):
    kept = {}
    shapes = {tuple(p.shape) for p in block.parameters()} | {tuple(p.shape)[::-1] for p in block.parameters()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if tuple(tensor.shape) not in shapes:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        block(x)
    return sum(kept.values())


# %% wrong: backward_and_clears
# Runs backward, then clears the gradients, also those that were there before.

def kept_bytes(block, x):
    kept = {}
    parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = block(x)
    y.sum().backward()
    block.zero_grad()
    x.grad = None
    return sum(kept.values())


# %% wrong: clears_gradients_first
# Clears the gradients first, as a training step does.

def kept_bytes(block, x):
    kept = {}
    parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    block.zero_grad()
    x.grad = None
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = block(x)
    return sum(kept.values())


# %% wrong: always_train
# Turns training on to measure, and leaves it on for a block in evaluation mode.

def kept_bytes(block, x):
    kept = {}
    parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    block.train()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = block(x)
    return sum(kept.values())


# %% wrong: eval_then_train
# Turns dropout off to measure, then on again: masks are not counted.

def kept_bytes(block, x):
    kept = {}
    parameters = {p.untyped_storage().data_ptr() for p in block.parameters()}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in parameters:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    block.eval()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = block(x)
    block.train()
    return sum(kept.values())


# %% right: keeps_the_tensors
# Collects the tensors first, and looks at their storages afterwards.

def kept_bytes(block, x):
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        block(x)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
    for p in block.parameters():
        storages.pop(p.untyped_storage().data_ptr(), None)
    return sum(storages.values())


# %% right: a_class_for_the_hooks
# A subclass of the hooks, with a total of its own.

class Counter(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, ignored):
        self.seen = set(ignored)
        self.total = 0
        super().__init__(self.on_save, self.on_load)

    def on_save(self, tensor):
        memory = tensor.untyped_storage()
        if memory.data_ptr() not in self.seen:
            self.seen.add(memory.data_ptr())
            self.total += memory.nbytes()
        return tensor

    def on_load(self, tensor):
        return tensor


def kept_bytes(block, x):
    counter = Counter(p.untyped_storage().data_ptr() for p in block.parameters())
    with counter:
        result = block(x)
    return counter.total


# %% right: pairs_in_a_set
# A set of pairs of address and size, from which those of the weights are taken.

def place_of(tensor):
    return tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()


def kept_bytes(block, x):
    places = set()

    def remember(tensor):
        places.add(place_of(tensor))
        return tensor

    def give_back(tensor):
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(remember, give_back):
        graph = block(x)
    activations = places - set(map(place_of, block.parameters()))
    return sum(size for _, size in activations)


# %% right: storages_compared_with_weights
# Loops over parameters for each tensor, and returns an integer from a list.

def kept_bytes(block, x):
    found = []

    def on_save(value):
        for parameter in block.parameters():
            if value.untyped_storage().data_ptr() == parameter.untyped_storage().data_ptr():
                return value
        for other in found:
            if other.untyped_storage().data_ptr() == value.untyped_storage().data_ptr():
                return value
        found.append(value)
        return value

    hooks = torch.autograd.graph.saved_tensors_hooks(on_save, lambda value: value)
    hooks.__enter__()
    try:
        y = block(x)
    finally:
        hooks.__exit__(None, None, None)
    return int(sum(value.untyped_storage().nbytes() for value in found))
