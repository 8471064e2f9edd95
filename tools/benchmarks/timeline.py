"""How long a timeline takes to be studied, saved and read from a profile, and how that grows. Run it by hand:

    .venv/bin/python -m tools.benchmarks.timeline

Each row has as many events for each device as it says. The last column is the row's time by that of the first row, for
each event: 1 where it grows with the events, as it should.
"""

import json
import random
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from utils.observe.trace import PHASES, Event, Timeline, profile


def made_at_random(devices: int, each: int) -> Timeline:
    """Kernels with gaps between them, a tenth of them copies to another device."""
    pick, names, events = random.Random(0), [f"gpu:{i}" for i in range(devices)], []
    for name in names:
        now = 0.0
        for _ in range(each):
            now += pick.random()
            other = pick.choice(names) if pick.random() < 0.1 else None
            kind = "d2d" if other else "kernel"
            end = now + pick.random()
            events.append(Event(name, 0, "work", kind, pick.choice(PHASES), now, end, now, 4096, 0, other))
            now = end
    end = max(event.end for event in events)
    return Timeline(tuple(names), tuple(sorted(events, key=lambda e: e.start)), 0.0, end, "made at random")


def profile_of(kernels: int, ranges: int) -> dict:
    """A profile of so many kernels, launched by calls that stand in so many backward nodes, steps and marks."""
    names = "autograd::engine::evaluate_function: AddmmBackward0", "Optimizer.step#SGD.step", f"{profile.MICRO_BATCH}1"
    shared = {"ph": "X", "tid": 1, "dur": 0.5}
    events = [shared | {"cat": "user_annotation", "name": profile.WINDOW, "ts": 0, "dur": kernels}]
    for number in range(ranges):
        ts = number * kernels / ranges
        events.append(shared | {"cat": "user_annotation", "name": names[number % 3], "ts": ts})
    for number in range(kernels):
        args = {"correlation": number, "device": number % 2}
        events.append(shared | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": number, "args": args})
        events.append(shared | {"cat": "kernel", "name": "gemm", "ts": number, "args": args})
    return {"traceEvents": events}


def seconds(work) -> float:
    """The least of three."""
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def report(title: str, rows) -> None:
    """`rows` of (name, events, what to do)."""
    print(f"{title:<44}{'seconds':>9}{'an event, by the first row':>30}")
    first = None
    for name, events, work in rows:
        taken = seconds(work)
        first = first or taken / events
        print(f"{name:<44}{taken:>9.3f}{taken / events / first:>30.2f}")


if __name__ == "__main__":
    sizes = ((2, 5_000), (8, 5_000), (8, 25_000))
    lines = [(f"{d} devices x {n:,} events", d * n, made_at_random(d, n)) for d, n in sizes]
    report("Timeline.table()", [(name, n, lambda line=line: replace(line).table()) for name, n, line in lines])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "timeline.json"
        report("Timeline.save()", [(name, n, lambda line=line: line.save(path)) for name, n, line in lines])
    profiles = [(n, r, json.loads(json.dumps(profile_of(n, r)))) for n, r in ((1_000, 3_000), (4_000, 12_000))]
    report(
        "reading a profile",
        [
            (f"{n:,} kernels in {r:,} ranges", n + r, lambda p=p: profile.fill_timeline(Timeline(("cuda:0",)), p))
            for n, r, p in profiles
        ],
    )
