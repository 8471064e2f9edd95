# %% wrong: adds_lengths
# Adds up the copies one by one, so that two at the same moment count twice.

def copy_share(timeline):
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    total = 0.0
    for e in timeline.events:
        if e.kind == "d2d":
            total += intervals.length(intervals.without([(e.start, e.end)], kernels))
    return total / timeline.span


# %% wrong: divides_by_the_end
# Divides by the end of the timeline, as if each began at 0.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels)) / timeline.end


# %% wrong: every_copy
# Counts copies to and from the CPU too.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if not e.is_kernel)
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels)) / timeline.span


# %% wrong: hidden_copies_too
# Counts copies behind which a GPU computes.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    return intervals.length(copies) / timeline.span


# %% wrong: of_the_busy_time
# Divides by the time in which GPUs compute, not by the span.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels)) / intervals.length(kernels)


# %% wrong: own_kernels_only
# Looks only at the kernels of the device that gives the copy.

def copy_share(timeline):
    total = 0.0
    for device in timeline.devices:
        copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d" and e.device == device)
        total += intervals.length(intervals.without(copies, timeline.busy_times(device)))
    return total / timeline.span


# %% wrong: percent
# Returns percent.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return 100 * intervals.length(intervals.without(copies, kernels)) / timeline.span


# %% wrong: prints_only
# Prints the share, and returns nothing.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    print(intervals.length(intervals.without(copies, kernels)) / timeline.span)


# %% wrong: seconds
# Returns seconds, not a share.

def copy_share(timeline):
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    kernels = intervals.union((e.start, e.end) for e in timeline.events if e.is_kernel)
    return intervals.length(intervals.without(copies, kernels))


# %% wrong: waits_of_the_first
# Takes the first device's waits for a copy, those for the CPU's batch too.

def copy_share(timeline):
    return timeline.waits(timeline.devices[0])["a copy"] / timeline.span


# %% right: busy_times
# Asks the timeline when each device was busy.

def copy_share(timeline):
    busy = intervals.union(each for device in timeline.devices for each in timeline.busy_times(device))
    copies = intervals.union((e.start, e.end) for e in timeline.events if e.kind == "d2d")
    hidden = intervals.length(intervals.common(copies, busy))
    return (intervals.length(copies) - hidden) / (timeline.end - timeline.begin)


# %% right: pandas
# Uses the table of events.

def copy_share(timeline):
    table = timeline.kernels()
    between = table[table.kind == "d2d"]
    busy = table[table.kind == "kernel"]
    copies = intervals.union(zip(between.start, between.end))
    kernels = intervals.union(zip(busy.start, busy.end))
    return intervals.length(intervals.without(copies, kernels)) / (1e3 * timeline.span)


# %% right: sorted_by_hand
# Goes through the moments at which something begins or ends.

def copy_share(timeline):
    moments = sorted({t for event in timeline.events for t in (event.start, event.end)})
    total = 0.0
    for begin, end in zip(moments, moments[1:]):
        running = [event for event in timeline.events if event.start <= begin and event.end >= end]
        if any(event.kind == "d2d" for event in running) and not any(event.is_kernel for event in running):
            total += end - begin
    return total / timeline.span
