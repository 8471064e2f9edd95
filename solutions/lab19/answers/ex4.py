# %% wrong: durations_added_up
# Adds up durations, as if nothing overlapped.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def total(chosen):
        return sum(event["end"] - event["start"] for event in chosen)

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = total(event for event in kernels if event["phase"] != "optimizer")
    optimizer = total(event for event in kernels if event["phase"] == "optimizer")
    exposed = total(event for event in events if event["kind"] == "comm")
    span = end - begin
    return {
        "compute": compute,
        "optimizer": optimizer,
        "exposed": exposed,
        "idle": span - compute - optimizer - exposed,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: recomputation_is_useful
# Counts all operations that the GPU does as needed.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": sum(map(done, events)) / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: whole_kernels
# Counts the operations of whole kernels, also of those that the ends of the step cut.

def ledger(events, begin, end, needed, peak):
    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(event["flops"] for event in events) / span / peak,
    }


# %% wrong: takes_events_as_sorted
# Relies on the order of the list, which is not that of the starts.

def ledger(events, begin, end, needed, peak):
    def open_time(chosen):
        total, until = 0.0, begin
        for event in chosen:
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: hidden_communication_is_exposed
# Counts all communication as exposed.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": open_time([event for event in events if event["kind"] == "comm"]),
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: waiting_for_communication_is_idle
# Takes all time without a kernel for idle.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - busy,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: the_optimizer_computes
# Counts the optimizer's kernels as computing, too.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time(kernels)
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: not_cut_at_the_ends
# Takes the time before begin and after end.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, float("-inf")
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), event["end"]
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: percent
# Gives MFU in percent.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": 100 * needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: span_of_the_events
# Takes the time from the first event to the last.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    begin, end = min(event["start"] for event in events), max(event["end"] for event in events)
    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return {
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }


# %% wrong: a_list
# Returns the numbers without names.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    def open_time(chosen):
        total, until = 0.0, begin
        for event in sorted(chosen, key=lambda event: event["start"]):
            start, stop = max(event["start"], until), min(event["end"], end)
            if stop > start:
                total, until = total + stop - start, stop
        return total

    kernels = [event for event in events if event["kind"] == "kernel"]
    compute = open_time([event for event in kernels if event["phase"] != "optimizer"])
    busy, working = open_time(kernels), open_time(events)
    span = end - begin
    return list({
        "compute": compute,
        "optimizer": busy - compute,
        "exposed": working - busy,
        "idle": span - working,
        "mfu": needed / span / peak,
        "hfu": sum(map(done, events)) / span / peak,
    }.values())


# %% wrong: half_seconds
# Looks at the middle of each half second, and takes it for the whole of it.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    found = dict.fromkeys(("compute", "optimizer", "exposed", "idle"), 0.0)
    step, moment = 0.5, begin + 0.25
    while moment < end:
        here = [event for event in events if event["start"] <= moment < event["end"]]
        kernels = [event["phase"] for event in here if event["kind"] == "kernel"]
        if any(phase != "optimizer" for phase in kernels):
            found["compute"] += step
        elif kernels:
            found["optimizer"] += step
        else:
            found["exposed" if here else "idle"] += step
        moment += step
    span = end - begin
    flops = sum(map(done, events))
    return found | {"mfu": needed / span / peak, "hfu": flops / span / peak}


# %% right: between_all_marks
# Cuts the time at every start and end, and asks of each piece what is open.

def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    found = dict.fromkeys(("compute", "optimizer", "exposed", "idle"), 0.0)
    marks = sorted({begin, end, *(min(max(event[key], begin), end) for event in events for key in ("start", "end"))})
    for start, stop in zip(marks, marks[1:]):
        here = [event for event in events if event["start"] <= start and stop <= event["end"]]
        kernels = [event["phase"] for event in here if event["kind"] == "kernel"]
        if any(phase != "optimizer" for phase in kernels):
            found["compute"] += stop - start
        elif kernels:
            found["optimizer"] += stop - start
        else:
            found["exposed" if here else "idle"] += stop - start
    span = end - begin
    flops = sum(map(done, events))
    return found | {"mfu": needed / span / peak, "hfu": flops / span / peak}


# %% right: by_starts_and_ends
# Goes through starts and ends in order, and counts what is open.

from collections import Counter


def ledger(events, begin, end, needed, peak):
    def done(event):
        inside = min(event["end"], end) - max(event["start"], begin)
        return event["flops"] * max(inside, 0) / (event["end"] - event["start"])

    marks = [(begin, 0, "begin"), (end, 0, "end")]
    for event in events:
        of_optimizer = event["kind"] == "kernel" and event["phase"] == "optimizer"
        name = "optimizer" if of_optimizer else "compute" if event["kind"] == "kernel" else "exposed"
        marks += [(event["start"], 1, name), (event["end"], -1, name)]
    found, still_open, last = Counter(compute=0.0, optimizer=0.0, exposed=0.0, idle=0.0), Counter(), begin
    for moment, change, name in sorted(marks):
        passed = min(max(moment, begin), end) - last
        now = next((one for one in ("compute", "optimizer", "exposed") if still_open[one] > 0), "idle")
        found[now] += passed
        last += passed
        still_open[name] += change
    span = end - begin
    flops = sum(map(done, events))
    return dict(found) | {"mfu": needed / span / peak, "hfu": flops / span / peak}
