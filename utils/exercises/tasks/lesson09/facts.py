"""The facts about lesson 09's task."""

import math
import re

from utils.exercises.facts import Lab, case, need, visible
from utils.exercises.facts.probes import gradient_of
from utils.observe import intervals
from utils.observe.trace import Event, Timeline

lab = Lab("lesson09", "Fast and right")
lesson = visible("lesson08")

task = lab.exercise(
    "fast_and_right",
    points=0,
    title="Fast, and right",
    hints=[
        "Two things are read too early. What does the copy read, and who writes it? What does part1 read?",
        "a.wait_stream(b): what a is given from now on waits for what b has been given until now. The streams that "
        "compute are the current streams of the two devices.",
        "Three losses are means over 400, 400 and 200 rows. How much of the whole batch's mean is each?",
        "Does anything in the loop need a number on the host? Then nothing has to be synchronised either.",
    ],
)


def run_step(lab, device0, device1, widths, x, y, size):
    import warnings

    import torch
    from torch import nn

    from simgpu.streams import Stream
    from utils.exercises.facts.probes import array, fill, kind_of

    part0 = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh())
    part1 = nn.Linear(widths[1], widths[2])
    whole = nn.Sequential(part0, part1)
    fill(whole, 4)
    part0.to(device0)
    part1.to(device1)
    sizes = []
    part0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    stream = torch.cuda.Stream if device0.startswith("cuda") else Stream
    streams = [stream(torch.device(device)) for device in (device0, device1)]
    x, y = torch.from_numpy(x).to(device0), torch.from_numpy(y).to(device1)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        loss = lab.fast_and_right(part0, part1, nn.MSELoss(), x, y, size, *streams)
    return {
        "sizes": sizes,
        "loss": array(loss.reshape(-1)) if isinstance(loss, torch.Tensor) else kind_of(loss),
        "gradients": [None if p.grad is None else array(p.grad) for p in whole.parameters()],
        "races": [str(each) for each in warned if "has not finished writing" in str(each)],
    }


def compare_step(student, device0, device1, rows, size, widths=(5, 9, 3)):
    import torch
    from torch import nn

    x, y = lesson.numbers(rows, widths[0], seed=5), lesson.numbers(rows, widths[2], seed=6)
    whole = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2]))
    lesson.fill(whole, 4)
    loss = nn.functional.mse_loss(whole(torch.from_numpy(x)), torch.from_numpy(y))
    loss.backward()
    with case(f"With {rows} rows, size={size}, x on {device0} and y on {device1}"):
        run = student.run(run_step, device0, device1, list(widths), x, y, size)
        lesson.compare_sizes(run["sizes"], rows, size)
        lesson.compare_gradients(run["gradients"], [gradient_of(p) for p in whole.parameters()])
        need(not isinstance(run["loss"], str), f"it returned {run['loss']}. Return the loss as a tensor.")
        need(
            run["loss"].size == 1 and math.isclose(run["loss"][0], loss.item(), rel_tol=1e-4),
            f"the loss of the whole batch is {loss.item():.4f}, and it returned {run['loss']}.",
        )
        return run


@task.fact("the loss and every gradient are those of the whole batch, also with a smaller last micro-batch")
def _(student):
    compare_step(student, *student.devices, rows=12, size=4)
    compare_step(student, *student.devices[::-1], rows=10, size=4)


@task.fact("no stream reads what another has not finished writing (seen where devices are simulated)")
def _(student):
    races = compare_step(student, *student.devices, rows=12, size=4)["races"]
    # Without the numbers of streams: this check has made them.
    said = re.sub(r" on stream \d+", "", races[0].partition("'On ")[2].partition(". A real")[0]) if races else ""
    need(not races, f"on {said}. On CUDA it would read whatever is there, and say nothing. What has to wait for what?")


def watch_step(lab, device0, device1, micro_batches):
    from dataclasses import asdict

    import torch
    from torch import nn

    from simgpu.streams import Stream
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    # In simgpu's cost model a sum of very many numbers for very few results is slow; this computer does it quickly.
    part0 = nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8)).to(device0)
    part1 = nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8)).to(device1)
    giving, taking = Stream(torch.device(device0)), Stream(torch.device(device1))
    x, y = torch.randn(16 * micro_batches, 8).to(device0), torch.randn(16 * micro_batches, 8).to(device1)
    with record(device0, device1) as timeline:
        lab.fast_and_right(part0, part1, nn.MSELoss(), x, y, 16, giving, taking)
    return {"watched": True, "timeline": asdict(timeline)}


def shares(told, device0, device1):
    """Of the shorter device's work what is done while the other works, of the forward copies what each device hides."""
    events = [Event(*event) for event in told["events"]]
    line = Timeline(tuple(told["devices"]), tuple(events), told["begin"], told["end"])
    both = intervals.length(intervals.common(line.busy_times(device0), line.busy_times(device1)))
    copies = intervals.union((e.start, e.end) for e in events if e.kind == "d2d" and e.phase == "forward")
    hidden = [intervals.length(intervals.common(copies, line.busy_times(device))) for device in (device0, device1)]
    least = min(line.busy(device0), line.busy(device1))
    return both / least if least else 0.0, [each / intervals.length(copies) if copies else 0.0 for each in hidden]


@task.fact("both devices work at the same time, and both compute while a copy is on its way (where simulated)")
def _(student):
    m = 6
    run = student.run(watch_step, *student.devices, m)
    if run["watched"]:
        share, hidden = shares(run["timeline"], *student.devices)
        with case(f"With {m} micro-batches"):
            need(
                share > 0.5,
                f"on the simulated clock both devices worked at once for {share:.0%} of the time that they "
                "work. Does something wait for more than it needs?",
            )
            for device, stream, during in zip(student.devices, ("giving", "taking"), hidden, strict=True):
                need(
                    during > 0.5,
                    f"{device} computed during {during:.0%} of the time of the copies. It is not wrong, and not "
                    f"overlapped: is `{stream}` its current stream where the copy is launched, and what does the "
                    "stream that computes wait for?",
                )
