# %% wrong: waits_at_the_ends_only
# Waits before the step and after it, and reads the clock between the parts, where only launches are done.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        wait()
        t0 = clock()
        loss = loss_fn(model(x), y)
        t1 = clock()
        loss.backward()
        t2 = clock()
        optimizer.step()
        wait()
        t3 = clock()
        times["forward"].append(t1 - t0)
        times["backward"].append(t2 - t1)
        times["update"].append(t3 - t2)
    for _ in range(repeats):
        wait()
        begin = clock()
        step()
        wait()
        times["whole"].append(clock() - begin)
    return {name: statistics.median(values) for name, values in times.items()}


# %% wrong: whole_is_the_sum
# Thinks that the whole is the sum of its parts.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def now():
        for gpu in gpus:
            synchronize(gpu)
        return clock()

    forward, backward, update, whole = [], [], [], []
    for number in range(1 + 2 * repeats):
        optimizer.zero_grad()
        t0 = now()
        loss = loss_fn(model(x), y)
        t1 = now()
        loss.backward()
        t2 = now()
        optimizer.step()
        t3 = now()
        if number:
            forward.append(t1 - t0)
            backward.append(t2 - t1)
            update.append(t3 - t2)
            whole.append(t3 - t0)
    return {
        "forward": statistics.median(forward),
        "backward": statistics.median(backward),
        "update": statistics.median(update),
        "whole": statistics.median(whole),
    }


# %% wrong: last_device_only
# Waits for the device with the output only: the backward pass ends on the other one.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        synchronize(gpus[-1])
        begin = clock()
        result = work()
        synchronize(gpus[-1])
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        took, loss = timed(lambda: loss_fn(model(x), y))
        times["forward"].append(took)
        times["backward"].append(timed(loss.backward)[0])
        times["update"].append(timed(optimizer.step)[0])
        times["whole"].append(timed(step)[0])
    return {name: statistics.median(values) for name, values in times.items()}


# %% wrong: current_device_only
# Calls synchronize without a device, as the handout does.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    gpu = torch.get_device_module(gpus[0])

    def timed(work):
        gpu.synchronize()
        begin = clock()
        result = work()
        gpu.synchronize()
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        took, loss = timed(lambda: loss_fn(model(x), y))
        times["forward"].append(took)
        times["backward"].append(timed(loss.backward)[0])
        times["update"].append(timed(optimizer.step)[0])
        times["whole"].append(timed(step)[0])
    return {name: statistics.median(values) for name, values in times.items()}


# %% wrong: gradients_pile_up
# Forgets to forget the old gradients.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def timed(work):
        wait()
        begin = clock()
        result = work()
        wait()
        return clock() - begin, result

    def step():
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        took, loss = timed(lambda: loss_fn(model(x), y))
        times["forward"].append(took)
        times["backward"].append(timed(loss.backward)[0])
        times["update"].append(timed(optimizer.step)[0])
        times["whole"].append(timed(step)[0])
    return {name: statistics.median(values) for name, values in times.items()}


# %% wrong: no_warm_up
# Leaves out the step that warms up, so that the first update of the optimizer, which makes its state, is timed.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        took, loss = timed(lambda: loss_fn(model(x), y))
        times["forward"].append(took)
        times["backward"].append(timed(loss.backward)[0])
        times["update"].append(timed(optimizer.step)[0])
        times["whole"].append(timed(step)[0])
    return {name: statistics.median(values) for name, values in times.items()}


# %% wrong: totals
# Returns sums over all repeats.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    times = {"forward": 0.0, "backward": 0.0, "update": 0.0, "whole": 0.0}
    for _ in range(repeats):
        optimizer.zero_grad()
        took, loss = timed(lambda: loss_fn(model(x), y))
        times["forward"] += took
        times["backward"] += timed(loss.backward)[0]
        times["update"] += timed(optimizer.step)[0]
        times["whole"] += timed(step)[0]
    return times


# %% wrong: forward_without_the_wait_before
# Trusts that nothing is left from before: in the first forward pass the warm-up is still running.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            synchronize(gpu)

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    forward, backward, update, whole = [], [], [], []
    for _ in range(repeats):
        optimizer.zero_grad()
        t0 = clock()
        loss = loss_fn(model(x), y)
        wait()
        t1 = clock()
        loss.backward()
        wait()
        t2 = clock()
        optimizer.step()
        wait()
        t3 = clock()
        step()
        wait()
        t4 = clock()
        forward.append(t1 - t0)
        backward.append(t2 - t1)
        update.append(t3 - t2)
        whole.append(t4 - t3)
    medians = [statistics.median(values) for values in (forward, backward, update, whole)]
    return dict(zip(["forward", "backward", "update", "whole"], medians))


# %% wrong: own_clock
# Reads the wall clock, and not the clock that it is given.

import time


def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = time.perf_counter()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return time.perf_counter() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        took, loss = timed(lambda: loss_fn(model(x), y))
        times["forward"].append(took)
        times["backward"].append(timed(loss.backward)[0])
        times["update"].append(timed(optimizer.step)[0])
        times["whole"].append(timed(step)[0])
    return {name: statistics.median(values) for name, values in times.items()}


# %% wrong: loss_not_in_forward
# Times the model alone as forward, and the loss nowhere, and the whole as the forward pass of the model.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def forward():
        model(x)

    def step():
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

    step()
    whole = time_it(step, gpus, clock, warm_up=0, repeats=repeats + 1)[0]
    first = time_it(forward, gpus, clock, warm_up=0, repeats=repeats + 1)[0]
    return {"forward": first, "backward": (whole - first) / 2, "update": (whole - first) / 2, "whole": whole}


# %% wrong: averages
# Returns the average of each list: one step that the computer was slow in is in all of it.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    found = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        seconds, loss = timed(lambda: loss_fn(model(x), y))
        found["forward"].append(seconds)
        found["backward"].append(timed(loss.backward)[0])
        found["update"].append(timed(optimizer.step)[0])
        found["whole"].append(timed(step)[0])
    return {part: statistics.mean(times) for part, times in found.items()}


# %% wrong: gpus_of_the_notebook
# Waits for every GPU that the notebook has, whichever it is given.

all_gpus = list(gpus)


def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in all_gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in all_gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    found = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        found["whole"].append(timed(step)[0])
        optimizer.zero_grad()
        seconds, loss = timed(lambda: loss_fn(model(x), y))
        found["forward"].append(seconds)
        found["backward"].append(timed(loss.backward)[0])
        found["update"].append(timed(optimizer.step)[0])
    return {part: statistics.median(times) for part, times in found.items()}


# %% wrong: shortest
# Takes the shortest time, because noise only ever makes a step longer.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    found = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        seconds, loss = timed(lambda: loss_fn(model(x), y))
        found["forward"].append(seconds)
        found["backward"].append(timed(loss.backward)[0])
        found["update"].append(timed(optimizer.step)[0])
        found["whole"].append(timed(step)[0])
    return {part: min(times) for part, times in found.items()}


# %% wrong: milliseconds
# Returns milliseconds.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    found = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        seconds, loss = timed(lambda: loss_fn(model(x), y))
        found["forward"].append(seconds)
        found["backward"].append(timed(loss.backward)[0])
        found["update"].append(timed(optimizer.step)[0])
        found["whole"].append(timed(step)[0])
    return {part: 1000 * statistics.median(times) for part, times in found.items()}


# %% wrong: loss_timed_with_backward
# Takes the loss for a part of backward.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def timed(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    step()
    found = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        seconds, output = timed(lambda: model(x))
        found["forward"].append(seconds)
        found["backward"].append(timed(lambda output=output: loss_fn(output, y).backward())[0])
        found["update"].append(timed(optimizer.step)[0])
        found["whole"].append(timed(step)[0])
    return {part: statistics.median(times) for part, times in found.items()}


# %% right: one_reading_after_another
# A function that waits and then reads the clock; whole steps in a loop of their own.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def now():
        for gpu in gpus:
            synchronize(gpu)
        return clock()

    def step():
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()

    step()
    forward, backward, update, whole = [], [], [], []
    for _ in range(repeats):
        optimizer.zero_grad()
        a = now()
        loss = loss_fn(model(x), y)
        b = now()
        loss.backward()
        c = now()
        optimizer.step()
        d = now()
        forward.append(b - a)
        backward.append(c - b)
        update.append(d - c)
    for _ in range(repeats):
        a = now()
        step()
        whole.append(now() - a)
    return {
        "forward": statistics.median(forward),
        "backward": statistics.median(backward),
        "update": statistics.median(update),
        "whole": statistics.median(whole),
    }


# %% right: whole_first
# Whole steps first, with the module's own synchronize; gradients are set to None by hand; medians by numpy.

import numpy as np


def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def wait():
        for gpu in gpus:
            torch.get_device_module(gpu).synchronize(gpu)

    def forget():
        for parameter in model.parameters():
            parameter.grad = None

    def step():
        forget()
        loss_fn(model(x), y).backward()
        optimizer.step()

    rows = []
    step()
    for _ in range(repeats):
        wait()
        start = clock()
        step()
        wait()
        whole = clock() - start
        forget()
        wait()
        marks = [clock()]
        loss = loss_fn(model(x), y)
        wait()
        marks.append(clock())
        loss.backward()
        wait()
        marks.append(clock())
        optimizer.step()
        wait()
        marks.append(clock())
        rows.append([*np.diff(marks), whole])
    forward, backward, update, whole = np.median(rows, axis=0)
    print("forward", forward)
    return {"forward": forward, "backward": backward, "update": update, "whole": whole}


# %% right: a_class
# A stopwatch as a context manager.

from collections import defaultdict
from contextlib import contextmanager


def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    found = defaultdict(list)

    @contextmanager
    def watch(name):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        yield
        for gpu in gpus:
            synchronize(gpu)
        found[name].append(clock() - begin)

    optimizer.zero_grad(set_to_none=True)
    loss_fn(model(x), y).backward()
    optimizer.step()
    for _ in range(repeats):
        optimizer.zero_grad()
        with watch("forward"):
            output = model(x)
            loss = loss_fn(output, y)
        with watch("backward"):
            loss.backward()
        with watch("update"):
            optimizer.step()
    for _ in range(repeats):
        with watch("whole"):
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    return {name: float(statistics.median(times)) for name, times in found.items()}


# %% right: lesson_timer_for_the_whole
# The whole with the timer of the lesson, once more for a spread where there is one repeat only: extra steps.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def step():
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()

    whole, _ = time_it(step, gpus, clock, warm_up=1, repeats=max(2, repeats))
    parts = {"forward": [], "backward": [], "update": []}
    for _ in range(repeats):
        optimizer.zero_grad()
        kept = []
        works = {"forward": lambda: kept.append(loss_fn(model(x), y)), "backward": lambda: kept[0].backward()}
        for name, work in {**works, "update": optimizer.step}.items():
            for gpu in gpus:
                synchronize(gpu)
            begin = clock()
            work()
            for gpu in gpus:
                synchronize(gpu)
            parts[name].append(clock() - begin)
    return {"whole": whole, **{name: statistics.median(times) for name, times in parts.items()}}


# %% wrong: targets_to_the_notebooks_device1
# Moves the targets to the device1 of the notebook, where the output was in the trials: a model may end elsewhere.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()  # a step like any other
        loss_fn(model(x), y.to(device1)).backward()
        optimizer.step()  # without a wait in it

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()  # in none of the parts
        forward, loss = seconds(lambda: loss_fn(model(x), y.to(device1)))
        times["forward"].append(forward)
        times["backward"].append(seconds(loss.backward)[0])
        times["update"].append(seconds(optimizer.step)[0])
        times["whole"].append(seconds(step)[0])
    return {part: statistics.median(found) for part, found in times.items()}


# %% wrong: whole_looks_at_the_loss
# Looks at the loss within the whole step, to see that it is a number, and so makes the host wait before the update.

def time_step(model, loss_fn, optimizer, x, y, gpus, clock, repeats):
    def seconds(work):
        for gpu in gpus:
            synchronize(gpu)
        begin = clock()
        result = work()
        for gpu in gpus:
            synchronize(gpu)
        return clock() - begin, result

    def step():
        optimizer.zero_grad()  # a step like any other
        loss = loss_fn(model(x), y)
        loss.backward()
        assert math.isfinite(loss.item())
        optimizer.step()  # without a wait in it

    step()
    times = {"forward": [], "backward": [], "update": [], "whole": []}
    for _ in range(repeats):
        optimizer.zero_grad()  # in none of the parts
        forward, loss = seconds(lambda: loss_fn(model(x), y))
        times["forward"].append(forward)
        times["backward"].append(seconds(loss.backward)[0])
        times["update"].append(seconds(optimizer.step)[0])
        times["whole"].append(seconds(step)[0])
    return {part: statistics.median(found) for part, found in times.items()}
