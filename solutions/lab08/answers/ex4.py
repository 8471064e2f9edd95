# %% wrong: works_of_both_added
# Adds up the work of both devices, so every share is far too large.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    work = timeline.busy(device0) + timeline.busy(device1)
    return (work + work / micro_batches) / timeline.span


# %% wrong: first_device_is_the_busier
# Takes device0 for the busier one, whatever it has to do.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    return (timeline.busy(device0) + timeline.busy(device1) / micro_batches) / timeline.span


# %% wrong: no_turn_more
# Forgets the turn that each device has to sit out: gives the utilization of the busier device.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    return max(timeline.utilization().values())


# %% wrong: upside_down
# Divides the time by the bound.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    less, more = sorted([timeline.busy(device0), timeline.busy(device1)])
    return timeline.span / (more + less / micro_batches)


# %% wrong: percent
# Returns percent.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    less, more = sorted([timeline.busy(device0), timeline.busy(device1)])
    return 100 * (more + less / micro_batches) / timeline.span


# %% wrong: first_call_measured
# Measures the first call.

def share_of_bound(step, device0, device1, micro_batches):
    with record(device0, device1) as timeline:
        step()
    less, more = sorted([timeline.busy(device0), timeline.busy(device1)])
    return (more + less / micro_batches) / timeline.span


# %% wrong: own_turn
# Lets the busier device sit out a turn of its own.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    work = max(timeline.busy(device0), timeline.busy(device1))
    return (work + work / micro_batches) / timeline.span


# %% wrong: launches_timed
# Takes the time of the launches for that of the step.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    launched = [event.launched for event in timeline.events]
    seconds = max(launched) - min(launched)
    less, more = sorted([timeline.busy(device0), timeline.busy(device1)])
    return (more + less / micro_batches) / seconds


# %% wrong: speed_up_formula
# Gives the bound of the formula over two devices, whatever the step does.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    return micro_batches / (micro_batches + 1)


# %% wrong: two_calls_in_the_recording
# Records the warm-up, too.

def share_of_bound(step, device0, device1, micro_batches):
    with record(device0, device1) as timeline:
        step()
        step()
    less, more = sorted([timeline.busy(device0), timeline.busy(device1)])
    return (more + less / micro_batches) / timeline.span


# %% wrong: second_device_is_the_busier
# Takes device1 for the busier one, whatever it has to do.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    return (timeline.busy(device1) + timeline.busy(device0) / micro_batches) / timeline.span


# %% wrong: turn_of_the_average
# Thinks that both devices compute for the same time, and takes half of the total for each.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as timeline:
        step()
    work = (timeline.busy(device0) + timeline.busy(device1)) / 2
    return work * (1 + 1 / micro_batches) / timeline.span


# %% right: utilization
# Uses utilization, and multiplies.

def share_of_bound(step, device0, device1, micro_batches):
    for _ in range(2):
        step()
    with record(device0, device1) as timeline:
        step()
    less, more = sorted(timeline.utilization().values())
    return more + less / micro_batches


# %% right: measured_beside
# Times one call with the course's measure, and takes the work from a recording of another.

def share_of_bound(step, device0, device1, micro_batches):
    from utils.observe.timing import measure

    seconds = measure(step, device0, device1, repeats=1, warm_up=1).median
    with record(device0, device1) as recording:
        step()
    busy = [recording.busy(each) for each in (device0, device1)]
    if busy[0] > busy[1]:
        bound = busy[0] + busy[1] / micro_batches
    else:
        bound = busy[1] + busy[0] / micro_batches
    return bound / seconds


# %% right: idle_taken_away
# Counts the work as what is left of the time without the idle moments.

def share_of_bound(step, device0, device1, micro_batches):
    step()
    with record(device0, device1) as t:
        step()
    works = [t.span - t.idle(device0), t.span - t.idle(device1)]
    return (max(works) + min(works) / micro_batches) / t.span


# %% wrong: one_micro_batch_is_its_own_bound
# Thinks that a batch in one piece is no pipeline and takes as long as it has to, so its share is 1.

def share_of_bound(step, device0, device1, micro_batches):
    step()  # what only the first call does is not measured
    if micro_batches == 1:
        return 1.0
    with record(device0, device1) as timeline:
        step()
    less, more = sorted([timeline.busy(device0), timeline.busy(device1)])
    return (more + less / micro_batches) / timeline.span
