# %% wrong: products_whole
# Puts the whole time of products under the peak.

def ledger(timeline, peak):
    found = {"products at peak": 0, "products below peak": 0, "attention": 0, "other kernels": 0}
    for e in timeline.events:
        if e.name == "mm":
            found["products at peak"] += e.end - e.start
        elif "attention" in e.name:
            found["attention"] += e.end - e.start
        else:
            found["other kernels"] += e.end - e.start
    found["idle"] = timeline.span - sum(found.values())
    return found


# %% wrong: attention_at_peak_too
# Counts attention's operations among the products'.

def ledger(timeline, peak):
    found = {"products at peak": 0, "products below peak": 0, "attention": 0, "other kernels": 0}
    for e in timeline.events:
        found["products at peak"] += e.flops / peak
        if e.name == "mm":
            found["products below peak"] += e.end - e.start - e.flops / peak
        elif "attention" in e.name:
            found["attention"] += e.end - e.start - e.flops / peak
        else:
            found["other kernels"] += e.end - e.start
    found["idle"] = timeline.span - sum(found.values())
    return found


# %% wrong: forward_attention_only
# Takes the kernel named attention and forgets attention_backward.

def ledger(timeline, peak):
    def total(chosen):
        return sum(e.end - e.start for e in timeline.events if chosen(e))

    at_peak = sum(e.flops for e in timeline.events if e.name == "mm") / peak
    return {
        "products at peak": at_peak,
        "products below peak": total(lambda e: e.name == "mm") - at_peak,
        "attention": total(lambda e: e.name == "attention"),
        "other kernels": total(lambda e: e.name not in ("mm", "attention")),
        "idle": timeline.span - total(lambda e: True),
    }


# %% wrong: no_idle_time
# Takes the sum of all kernels for the step.

def ledger(timeline, peak):
    found = {"products at peak": 0, "products below peak": 0, "attention": 0, "other kernels": 0, "idle": 0}
    for e in timeline.events:
        if e.name == "mm":
            found["products at peak"] += e.flops / peak
            found["products below peak"] += e.end - e.start - e.flops / peak
        elif "attention" in e.name:
            found["attention"] += e.end - e.start
        else:
            found["other kernels"] += e.end - e.start
    return found


# %% wrong: milliseconds
# Returns milliseconds.

def ledger(timeline, peak):
    found = {"products at peak": 0, "products below peak": 0, "attention": 0, "other kernels": 0}
    for e in timeline.events:
        took = 1e3 * (e.end - e.start)
        if e.name == "mm":
            found["products at peak"] += 1e3 * e.flops / peak
            found["products below peak"] += took - 1e3 * e.flops / peak
        else:
            found["attention" if "attention" in e.name else "other kernels"] += took
    return found | {"idle": 1e3 * timeline.span - sum(found.values())}


# %% right: by_sums
# Chooses the kernels first and then sums.

def ledger(timeline, peak):
    def total(events):
        return sum(e.end - e.start for e in events)

    products = [e for e in timeline.events if e.name == "mm"]
    attention = [e for e in timeline.events if e.name.startswith("attention")]
    rest = [e for e in timeline.events if e not in products and e not in attention]
    at_peak = sum(e.flops for e in products) / peak
    return {
        "idle": timeline.span - total(timeline.events),
        "other kernels": total(rest),
        "attention": total(attention),
        "products at peak": at_peak,
        "products below peak": total(products) - at_peak,
    }


# %% right: by_busy
# Takes the idle time from the timeline.

def ledger(timeline, peak):
    seconds = [0.0] * 4
    for e in timeline.events:
        took = e.end - e.start
        if e.name == "mm":
            ideal = e.flops / peak
            seconds[0] += ideal
            seconds[1] += took - ideal
        elif "attention" in e.name:
            seconds[2] += took
        else:
            seconds[3] += took
    names = "products at peak", "products below peak", "attention", "other kernels"
    return dict(zip(names, seconds)) | {"idle": timeline.idle(timeline.devices[0])}
