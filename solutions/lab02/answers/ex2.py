# %% wrong: back_always
# Thinks that a gradient comes back over every crossing, also where nothing before it is trained.

def bytes_moved(layers, places, batch, training):
    moved = {}
    here = "cpu"
    for number, (layer, place) in enumerate(zip(layers, places)):
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.nbytes
            if training and number > 0:
                moved[place, here] = moved.get((place, here), 0) + batch.nbytes
        batch = layer(batch)
        here = place
    return moved


# %% wrong: batch_needs_gradient
# Thinks that the gradient of the batch goes back to the CPU.

def bytes_moved(layers, places, batch, training):
    moved = {}
    here = "cpu"
    for layer, place in zip(layers, places):
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.nbytes
            if training:
                moved[place, here] = moved.get((place, here), 0) + batch.nbytes
        batch = layer(batch)
        here = place
    return moved


# %% wrong: elements
# Counts numbers, not bytes.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in zip(layers, places):
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.numel()
            if training and trained:
                moved[place, here] = moved.get((place, here), 0) + batch.numel()
        batch = layer(batch)
        trained = trained or any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: four_bytes
# Thinks that a number has four bytes.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in zip(layers, places):
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.numel() * 4
            if training and trained:
                moved[place, here] = moved.get((place, here), 0) + batch.numel() * 4
        batch = layer(batch)
        trained = trained or any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: layer_before_only
# Asks only the layer before the crossing whether it is trained, and not those before it.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in zip(layers, places):
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.nbytes
            if training and trained:
                moved[place, here] = moved.get((place, here), 0) + batch.nbytes
        batch = layer(batch)
        trained = any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: made_on_devices
# Runs the layers on the devices and writes down what moves.

import copy


def bytes_moved(layers, places, batch, training):
    layers = copy.deepcopy(layers)
    with record() as timeline:
        for layer, place in zip(layers, places):
            batch = layer.to(place)(batch.to(place))
        if training:
            batch.float().sum().backward()
    return timeline.moved()


# %% wrong: nothing_back
# Forgets the backward pass.

def bytes_moved(layers, places, batch, training):
    moved, here = {}, "cpu"
    with torch.no_grad():
        for layer, place in zip(layers, places):
            if place != here:
                moved[here, place] = moved.get((here, place), 0) + batch.nbytes
            batch, here = layer(batch), place
    return moved


# %% wrong: output_comes_home
# Thinks that the output goes back to the CPU at the end.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in [*zip(layers, places), (None, "cpu")]:
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.nbytes
            if training and trained:
                moved[place, here] = moved.get((place, here), 0) + batch.nbytes
        if layer is not None:
            batch = layer(batch)
            trained = trained or any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: overwritten
# Replaces the bytes of a pair that was used before, so only the last crossing counts.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in zip(layers, places):
        if place != here:
            moved[here, place] = batch.nbytes
            if training and trained:
                moved[place, here] = batch.nbytes
        batch = layer(batch)
        trained = trained or any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: parameters_travel
# Thinks that the gradients of the parameters are sent back as well.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in zip(layers, places):
        if place != here:
            moved[here, place] = moved.get((here, place), 0) + batch.nbytes
            if training and trained:
                weights = sum(p.nbytes for p in layer.parameters())
                moved[place, here] = moved.get((place, here), 0) + batch.nbytes + weights
        batch = layer(batch)
        trained = trained or any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: results_of_all_layers
# Counts what every layer gives, also where the next layer is in the same place.

def bytes_moved(layers, places, batch, training):
    moved, here, trained = {}, "cpu", False
    for layer, place in zip(layers, places):
        moved[here, place] = moved.get((here, place), 0) + batch.nbytes
        if training and trained:
            moved[place, here] = moved.get((place, here), 0) + batch.nbytes
        batch = layer(batch)
        trained = trained or any(p.requires_grad for p in layer.parameters())
        here = place
    return moved


# %% wrong: two_devices_by_heart
# Has two devices and one crossing, as the lesson's model.

def bytes_moved(layers, places, batch, training):
    first, last = places[0], places[-1]
    cut = places.index(last)
    hidden = nn.Sequential(*layers[:cut])(batch)
    moved = {("cpu", first): batch.nbytes, (first, last): hidden.nbytes}
    if training:
        moved[last, first] = hidden.nbytes
    return moved


# %% wrong: freezes_for_inference
# Without training, the layers are frozen so that nothing needs a gradient. They stay frozen.

def bytes_moved(layers, places, batch, training):
    if not training:
        for layer in layers:
            layer.requires_grad_(False)
    moved, here, data = {}, "cpu", batch
    for layer, place in zip(layers, places, strict=True):
        if place != here:
            size = data.numel() * data.element_size()
            moved[here, place] = moved.get((here, place), 0) + size
            if data.requires_grad:
                moved[place, here] = moved.get((place, here), 0) + size
        here, data = place, layer(data)
    return moved


# %% right: counter
# A Counter of ways, and a helper that adds one crossing.

from collections import Counter


def bytes_moved(layers, places, batch, training):
    ways = Counter()
    graph = False
    where = "cpu"
    for layer, place in zip(layers, places, strict=True):
        if where != place:
            ways[where, place] += batch.numel() * batch.element_size()
            if graph and training:
                ways[place, where] += batch.numel() * batch.element_size()
        with torch.no_grad():
            batch = layer(batch)
        graph |= any(p.requires_grad for p in layer.parameters())
        where = place
    return dict(ways)


# %% right: autograd_says
# Lets autograd say whether a gradient is wanted: what a layer gives has requires_grad or not.

def bytes_moved(layers, places, batch, training):
    moved = {}
    for layer, place, before in zip(layers, places, ["cpu", *places]):
        if place != before:
            size = batch.numel() * batch.dtype.itemsize
            moved[(before, place)] = moved.get((before, place), 0) + size
            if training and batch.requires_grad:
                moved[(place, before)] = moved.get((place, before), 0) + size
        batch = layer(batch)
    print(moved)
    return moved


# %% right: on_meta
# Copies the layers to the device "meta", where tensors have shapes only, and lists what comes in before it counts.

import copy


def bytes_moved(layers, places, batch, training):
    arriving, trained = [batch.to("meta")], [False]
    for layer in layers:
        arriving.append(copy.deepcopy(layer).to("meta")(arriving[-1]))
        trained.append(trained[-1] or any(p.requires_grad for p in layer.parameters()))
    moved = {}
    for number, (start, end) in enumerate(zip(["cpu"] + list(places), places)):
        if start != end:
            moved.setdefault((start, end), 0)
            moved[start, end] += arriving[number].nbytes
            if training:
                moved.setdefault((end, start), 0)
                moved[end, start] += arriving[number].nbytes * trained[number]
    return moved


# %% wrong: numbers_like_the_weights
# Gives the batch the dtype of the first layer's weights, because data that goes through a layer has it; tokens do
# not.

def bytes_moved(layers, places, batch, training):
    moved = {}
    batch = batch.to(next(layers[0].parameters()).dtype)

    def crosses(start, end):
        moved[start, end] = moved.get((start, end), 0) + batch.nbytes

    place_before, gradient_wanted = "cpu", False
    for layer, place in zip(layers, places, strict=True):
        if place != place_before:
            crosses(place_before, place)
            if training and gradient_wanted:
                crosses(place, place_before)
        with torch.no_grad():
            batch = layer(batch)
        gradient_wanted = gradient_wanted or any(p.requires_grad for p in layer.parameters())
        place_before = place
    return moved
