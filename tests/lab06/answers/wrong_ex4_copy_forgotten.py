"""Thinks that what crosses the cut is on one device only."""


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
