"""Runs both parts anew for each cut."""


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
