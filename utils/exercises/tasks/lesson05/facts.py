"""What lesson 05's tasks are judged by: events that the facts record themselves, and bytes that they know.

The clock of `event_times` is made up: it tells three times, before any job, when all have finished, and in between.
"""

import simgpu
from utils.exercises.facts import Lab, case, need, orders_of
from utils.observe.devices import is_simulated

lab = Lab("lesson05", "Watch the idle GPU")

event_times = lab.exercise(
    "event_times",
    points=0,
    title="Time each device with events",
    hints=[
        "Use two loops. The first launches all jobs and records their events without waiting.",
        "stream.record_event(event) queues an event after the stream's earlier work. Each job needs its own two.",
        "You can read an event once the device has reached it. end.synchronize() waits for that.",
    ],
)

BEGIN, BETWEEN, END = 10.0, 11.0, 12.5  # seconds of the made-up clock


def run_jobs(lab, device0, device1, jobs, size, moments):
    """`jobs` are [number of the device, kernels]. Each job records events of its own around its kernels."""
    import torch

    from utils.exercises.facts.probes import kind_of
    from utils.observe.devices import is_idle
    from utils.observe.timing import between_events

    devices = [torch.device(device0), torch.device(device1)]
    squares = [torch.zeros(size, size, device=device) for device in devices]
    own, ran, waited = [], [], []

    def make_work(number, where, kernels):
        def multiply():
            for _ in range(kernels):
                torch.mm(squares[where], squares[where])

        def work():
            if ran and is_idle(devices[jobs[ran[-1]][0]]):
                waited.append(number)
            ran.append(number)
            own.append(between_events(devices[where], multiply))

        return work

    def clock():
        if not ran:
            return moments[0]
        done = len(ran) == len(jobs) and all([is_idle(device) for device in devices])
        return moments[2] if done else moments[1]

    given = [(devices[where], make_work(number, where, kernels)) for number, (where, kernels) in enumerate(jobs)]
    found = lab.event_times(given, clock)
    told = {"ran": ran, "waited": waited, "kind": kind_of(found)}
    if isinstance(found, (tuple, list)) and len(found) == 2 and isinstance(found[0], (tuple, list)):
        told["found"] = [*found[0], found[1]]
        told["found"] = [float(part) if isinstance(part, (int, float)) else kind_of(part) for part in told["found"]]
    told["own"] = [milliseconds() for milliseconds in own]
    return told


def size_for(device):
    """A square matrix whose product takes this device longer than the host needs to launch it."""
    if not is_simulated(device):
        return 8192
    return 512 if simgpu.settings().clock == "paced" else 1024


def compare_times(student, device0, device1, jobs):
    names = [device0, device1]
    told = " and then ".join(f"{kernels} kernels for {names[where]}" for where, kernels in jobs)
    with case(f"With jobs of {told}"):
        seen = student.run(run_jobs, device0, device1, jobs, size_for(device0), [BEGIN, BETWEEN, END])
        need(
            seen["ran"] == list(range(len(jobs))),
            f"the jobs that ran are {seen['ran']}. Run each once, in order.",
        )
        wanted = "Return a list with each job's milliseconds, and the milliseconds of all jobs together."
        need("found" in seen, f"it returned {seen['kind']}. {wanted}")
        *times, span = seen["found"]
        need(len(times) == len(jobs) and all(isinstance(part, float) for part in seen["found"]), wanted)
        need(
            not seen["waited"],
            "a job had finished before you launched the next. Do you wait inside the loop? Launch all jobs first.",
        )
        for number, (mine, own) in enumerate(zip(times, seen["own"], strict=True)):
            compare_one(number, names[jobs[number][0]], mine, own)
        compare_span(span, times)


def compare_one(number, device, mine, own):
    where = f"job {number} took {own:.3g} ms on {device}, but you returned {mine:.3g}."
    need(not near(mine * 1000, own), f"{where} Return milliseconds, as elapsed_time does.")
    told_by_the_clock = any(near(mine, (moment - BEGIN) * 1e3) for moment in (BETWEEN, END))
    need(not told_by_the_clock, f"{where} That is from the host's clock. Use it only for the total.")
    need(near(mine, own), f"{where} Are a job's events in its own device's stream, just before and after work()?")


def compare_span(span, times):
    right = (END - BEGIN) * 1e3
    where = f"from before the first job until the end of all jobs, clock() advanced {right:g} ms, not {span:.4g}."
    need(not near(span, right / 1000), f"{where} Convert the clock's seconds to milliseconds.")
    need(not near(span, sum(times)), f"{where} That is the sum of the jobs, but the devices work at the same time.")
    need(not near(span, (BETWEEN - BEGIN) * 1e3), f"{where} A device was still working when you read the clock.")
    need(near(span, right), f"{where} Read the clock before the first job and after all jobs have finished.")


def near(mine, theirs) -> bool:
    """A device that keeps to the wall clock is a little late on a busy computer."""
    return abs(mine - theirs) <= 0.1 * theirs + 0.02


@event_times.fact("the host launches all jobs, and events on each device time its job")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_times(student, device0, device1, [[0, 4], [1, 2]])


@event_times.fact("the clock is read again after all devices have finished, whichever finishes last")
def _(student):
    compare_times(student, *student.devices, jobs=[[0, 2], [1, 6], [0, 1]])


memory_of_step = lab.exercise(
    "memory_of_step",
    points=0,
    title="Peak memory of a step, by device",
    hints=[
        "PyTorch tracks a peak for each device, from the start or from the last reset of that device.",
        "reset_peak_memory_stats, memory_allocated and max_memory_allocated all take a device.",
    ],
)

MIB = 2**20


def use_memory(lab, device0, device1, kept, temporary, earlier):
    """A step that keeps some MiB on each device and needs others while it runs; before it there was a higher peak."""
    import torch

    from utils.exercises.facts.probes import kind_of

    devices = [torch.device(device0), torch.device(device1)]
    gpu = torch.get_device_module(devices[0])

    def make(size, device):
        return torch.empty(size * 2**18, device=device)  # MiB of float32

    for size, device in zip(earlier, devices, strict=True):
        make(size, device)
    before = [gpu.memory_allocated(device) for device in devices]
    held, ran = [], []

    def step():
        ran.append(1)
        for number, device in enumerate(devices):
            held.append(make(kept[number], device))
            make(temporary[number], device)

    found = lab.memory_of_step(step, list(devices))
    told = {"ran": len(ran), "before": before, "kind": kind_of(found)}
    if isinstance(found, dict):
        told["found"] = [
            [str(key), list(value) if isinstance(value, (tuple, list)) else kind_of(value)]
            for key, value in found.items()
        ]
    return told


def compare_memory(student, device0, device1):
    kept, temporary, earlier = [2, 3], [5, 9], [40, 30]
    seen = student.run(use_memory, device0, device1, kept, temporary, earlier)
    need(
        seen["ran"] == 1,
        f"step() was called {seen['ran']} times. Call it once: a second step may need a different amount of memory.",
    )
    need("found" in seen, f"it returned {seen['kind']}. Return a dict with two numbers for each device.")
    found = dict(seen["found"])
    need(
        sorted(found) == sorted([device0, device1]),
        f"the dict has these keys: {', '.join(sorted(found)) or 'none'}. Use str(device) of each device.",
    )
    for number, device in enumerate((device0, device1)):
        before = seen["before"][number]
        held, peak = before + kept[number] * MIB, before + (kept[number] + temporary[number]) * MIB
        mine = found[device]
        whole = isinstance(mine, list) and len(mine) == 2 and all(type(part) is int for part in mine)
        need(whole, f"for {device}, it returned {mine}. Return two whole numbers of bytes: held and peak.")
        compare_bytes(device, mine, before, held, peak, before + earlier[number] * MIB)


def compare_bytes(device, mine, before, held, peak, earlier):
    where = f"{device} holds {held} bytes after the step, {peak} at its peak, but you returned {mine[0]} and {mine[1]}."
    need(mine != [peak, held], f"{where} The two are in the wrong order.")
    need(mine[1] != earlier, f"{where} That peak is from before the step. Reset it on each device.")
    need(
        mine[1] != mine[0] or mine[0] != held,
        f"{where} The two are equal. Is the peak from max_memory_allocated, with no reset after the step?",
    )
    need(mine[0] != before or before == held, f"{where} Read the held bytes after the step.")
    need(not before or mine[1] != peak - before, f"{where} Subtract nothing: earlier allocations must fit, too.")
    need(mine == [held, peak], f"{where} Do you pass the device to each call?")


@memory_of_step.fact("for each device, it returns the bytes held after the step and the peak of this step")
def _(student):
    for device0, device1, order in orders_of(student):
        with order:
            compare_memory(student, device0, device1)
