"""Goes through the moments at which something begins or ends."""


def copy_share(timeline):
    moments = sorted({t for event in timeline.events for t in (event.start, event.end)})
    total = 0.0
    for begin, end in zip(moments, moments[1:]):
        running = [event for event in timeline.events if event.start <= begin and event.end >= end]
        if any(event.kind == "d2d" for event in running) and not any(event.is_kernel for event in running):
            total += end - begin
    return total / timeline.span
