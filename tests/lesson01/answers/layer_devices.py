# %% wrong: last_name_of_the_loop
# Makes the hook in the loop, so each reads the loop's last name when its layer runs.

def layer_devices(model, batch):
    places, handles = {}, []
    for name, layer in model.named_modules():
        def hook(layer, inputs, output):
            places[name] = output.device
        handles.append(layer.register_forward_hook(hook))
    model(batch)
    for handle in handles:
        handle.remove()
    return places


# %% wrong: devices_of_the_inputs
# Thinks that a layer's output is where its input came from.

def layer_devices(model, batch):
    places, handles = {}, []

    def note(name):
        def hook(layer, inputs, output):
            places[name] = inputs[0].device
        return hook

    for name, layer in model.named_modules():
        handles.append(layer.register_forward_hook(note(name)))
    model(batch)
    for handle in handles:
        handle.remove()
    return places


# %% wrong: devices_of_the_weights
# Asks weights, without any run, and forgets that a ReLU has none.

def layer_devices(model, batch):
    return {name: next(layer.parameters()).device for name, layer in model.named_modules()}


# %% wrong: hooks_left_in_the_model
# Thinks that hooks are gone when the function returns.

def layer_devices(model, batch):
    places = {}

    def note(name):
        def hook(layer, inputs, output):
            places[name] = output.device
        return hook

    for name, layer in model.named_modules():
        layer.register_forward_hook(note(name))
    model(batch)
    return places


# %% wrong: children_only
# Sees the model's own layers and none inside them.

def layer_devices(model, batch):
    places, handles = {}, []

    def note(name):
        def hook(layer, inputs, output):
            places[name] = output.device
        return hook

    for name, layer in model.named_children():
        handles.append(layer.register_forward_hook(note(name)))
    model(batch)
    for handle in handles:
        handle.remove()
    return places


# %% wrong: hook_returns_the_device
# Writes the hook as one expression, whose value takes the place of the layer's output.

def layer_devices(model, batch):
    places, handles = {}, []
    for name, layer in model.named_modules():
        hook = lambda layer, inputs, output, name=name: places.setdefault(name, output.device)
        handles.append(layer.register_forward_hook(hook))
    model(batch)
    for handle in handles:
        handle.remove()
    return places


# %% wrong: nothing_returned
# Forgets the return.

def layer_devices(model, batch):
    places, handles = {}, []

    def note(name):
        def hook(layer, inputs, output):
            places[name] = output.device
        return hook

    for name, layer in model.named_modules():
        handles.append(layer.register_forward_hook(note(name)))
    model(batch)
    for handle in handles:
        handle.remove()


# %% wrong: one_run_for_each_layer
# Registers a hook, runs the model, removes the hook, layer by layer.

def layer_devices(model, batch):
    places = {}
    for name, layer in model.named_modules():
        def hook(layer, inputs, output):
            places[name] = output.device
        handle = layer.register_forward_hook(hook)
        model(batch)
        handle.remove()
    return places


# %% right: names_by_partial
# functools.partial gives each hook its name; the handles close in `finally`.

from functools import partial


def store(places, name, layer, inputs, output):
    places[name] = str(output.device)


def layer_devices(model, batch):
    places = {}
    handles = [m.register_forward_hook(partial(store, places, name)) for name, m in model.named_modules()]
    try:
        model(batch)
    finally:
        for handle in handles:
            handle.remove()
    return places


# %% right: names_by_module
# One hook for all layers, which looks up the layer's name.

def layer_devices(model, batch):
    names = {layer: name for name, layer in model.named_modules()}
    places = {}

    def hook(layer, inputs, output):
        places[names[layer]] = output.device

    handles = [layer.register_forward_hook(hook) for layer in names]
    model(batch)
    [handle.remove() for handle in handles]
    return places
