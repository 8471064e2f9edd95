"""Lab 08's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here.
"""

import math

import numpy as np
import torch
from torch import nn

from utils.facts import Lab, case, need
from utils.facts.probes import build, fill

lab = Lab("lab08", "Pipeline the batch")

CLOSE = {"rtol": 1e-4, "atol": 1e-6}  # a real GPU adds up in another order than a CPU
ENOUGH = 0.8  # of the bound that the recorded kernels allow; a right pipeline reaches 0.93 here, a serial one 0.55


def same(mine, theirs) -> bool:
    return mine.shape == theirs.shape and np.allclose(mine, theirs, **CLOSE)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).numpy()


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def number_of(rows, size) -> int:
    return -(-rows // size)


def compare_sizes(found, rows, size):
    """`found` has how many rows each call of the first part was given."""
    need(found, "the first part was never called.")
    need(
        max(found) <= size,
        f"the first part was given {max(found)} rows at once, and a micro-batch has {size} at most.",
    )
    wanted = [min(size, rows - start) for start in range(0, rows, size)]
    need(
        sorted(found, reverse=True) == wanted,
        f"the first part was given {', '.join(map(str, found))} rows. {rows} rows with size={size} make micro-batches "
        f"of {', '.join(map(str, wanted))}.",
    )


def compare_gradients(found, expected, hint):
    """Lists of gradients in the order of the parameters; None where there is none."""
    missing = sum(gradient is None for gradient in found)
    need(not missing, f"{missing} of {len(found)} parameters have no gradient. What cuts the way back to them?")
    if all(same(mine, right) for mine, right in zip(found, expected, strict=True)):
        return
    ratio = math.sqrt(sum((g**2).sum() for g in found) / sum((g**2).sum() for g in expected))
    need(False, f"the gradients differ from those of the whole batch: they are {ratio:.2f} times as large. {hint}")


# --- ex1: the forward pass in micro-batches -----------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="The forward pass, in micro-batches",
    hints=[
        "x.split(size) gives the micro-batches, in their order. The last one may be smaller.",
        "What does one micro-batch have to go through, and where does it have to be before each part?",
        "Collect the outputs in a list. Which function of torch joins a list of tensors along the rows?",
        "A line in the loop that wants a value (.item(), print, .cpu(), synchronize) stops everything until it is "
        "there.",
    ],
)

FIRST = [["Linear", 6, 16], ["Tanh"]]
SECOND = [["Linear", 16, 5], ["Tanh"], ["Linear", 5, 3]]


def run_pipelined(lab, first, second, device0, device1, seed, x, size, comes_from):
    import torch

    from utils.facts.probes import array, build, fill, kind_of

    part0, part1 = build(first), build(second)
    whole = torch.nn.Sequential(part0, part1)
    fill(whole, seed)
    named = {tuple(p.shape): number for number, p in enumerate(whole.parameters())}
    sizes = []
    part0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    model = lab.Pipelined(part0, part1, torch.device(device0), torch.device(device1))
    if not isinstance(model, torch.nn.Module) or not list(model.parameters()):
        return {"wrong": "the model has no parameters that PyTorch can see. Are the parts attributes of it?"}
    output = model(torch.from_numpy(x).to(comes_from), size)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"forward returned {kind_of(output)}. Return one tensor."}
    model.zero_grad()
    output.square().mean().backward()
    places, gradients = [None] * len(named), [None] * len(named)
    for p in model.parameters():
        if tuple(p.shape) in named:
            number = named[tuple(p.shape)]
            places[number] = str(p.device)
            gradients[number] = None if p.grad is None else array(p.grad)
    return {
        "sizes": sizes,
        "output": array(output),
        "device": str(output.device),
        "places": places,
        "gradients": gradients,
    }


def expected_pipelined(first, second, seed, x):
    whole = nn.Sequential(build(first), build(second))
    fill(whole, seed)
    output = whole(torch.from_numpy(x))
    output.square().mean().backward()
    return output.detach().numpy(), [p.grad.numpy() for p in whole.parameters()]


def compare_pipelined(student, device0, device1, rows, size, *, first=FIRST, second=SECOND, seed=1, comes_from="cpu"):
    x = numbers(rows, first[0][1], seed=seed)
    where = "" if comes_from == "cpu" else f", x on {comes_from}"
    with case(f"With {rows} rows, size={size}{where}, device0={device0} and device1={device1}"):
        run = student.run(run_pipelined, first, second, device0, device1, seed, x, size, comes_from)
        need("wrong" not in run, run.get("wrong", ""))
        compare_sizes(run["sizes"], rows, size)
        count = sum(len(layer) > 1 for layer in first) * 2
        for part, places, device in (
            ("part0", run["places"][:count], device0),
            ("part1", run["places"][count:], device1),
        ):
            need(
                places == [device] * len(places),
                f"{part} is on {' and '.join(sorted(set(map(str, places))))}, not on {device}.",
            )
        need(run["device"] == device1, f"the output is on {run['device']}, not on {device1}.")
        output, gradients = expected_pipelined(first, second, seed, x)
        need(
            run["output"].shape == output.shape,
            f"the output has shape {tuple(run['output'].shape)}, and the whole batch gives {tuple(output.shape)}.",
        )
        moved = sorted(map(tuple, run["output"].round(4))) == sorted(map(tuple, output.round(4)))
        need(
            same(run["output"], output),
            "the rows of the output are right, but in another order than those of the batch."
            if moved
            else "the output differs from that of the whole batch.",
        )
        compare_gradients(run["gradients"], gradients, "")


@ex1.fact("micro-batches of equal size: placement, output, order and every gradient as with the whole batch")
def _(student):
    compare_pipelined(student, *student.devices, 12, 4)


@ex1.fact("a last micro-batch that is smaller counts too")
def _(student):
    compare_pipelined(student, *student.devices, 10, 4)


def watch_forward(lab, device0, device1, micro_batches):
    """The share of the shorter device's work that is done while the other works too. Simulated devices only."""
    import warnings

    import torch

    from utils import intervals
    from utils.devices import is_simulated
    from utils.facts.probes import build
    from utils.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    # A sum of very many numbers for very few results is slow on a GPU and quick here.
    slow = [["Linear", 8, 60_000], ["Linear", 60_000, 8]]
    model = lab.Pipelined(build(slow), build(slow), torch.device(device0), torch.device(device1))
    x = torch.randn(16 * micro_batches, 8).to(device0)
    with torch.no_grad(), record(device0, device1) as timeline, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        model(x, 16)
    both = intervals.length(intervals.common(timeline.busy_times(device0), timeline.busy_times(device1)))
    least = min(timeline.busy(device0), timeline.busy(device1))
    # The parts are products of matrices: what the host does before the first or after the last is not in the loop.
    products = [event.launched for event in timeline.events if event.flops]
    first, last = min(products, default=0.0), max(products, default=0.0)
    inside = [event.launched for event in timeline.events if first <= event.launched <= last]
    return {
        "watched": True,
        "share": both / least if least else 0.0,
        "launched": sorted(inside),
        "races": sum("has not finished writing" in str(each) for each in warned),
    }


def host_waited(launched) -> bool:
    """On the virtual clock the host spends the same time on each launch, and more only where it waits."""
    gaps = np.diff(launched)
    return len(gaps) > 0 and bool(gaps.max() > gaps.min() * 1.1)


def need_overlap(student, device0, device1, micro_batches):
    run = student.run(watch_forward, device0, device1, micro_batches)
    if run["watched"]:
        why = (
            "What waits in the loop?"
            if host_waited(run["launched"])
            else "The host never waits, so look at the order of the launches: a copy from device0 to device1 waits for "
            "everything that device0 was given before it."
        )
        need(
            run["share"] > 0.5,
            f"With {micro_batches} micro-batches: on the simulated clock both devices worked at once for "
            f"{run['share']:.0%} of the time that they work. {why}",
        )
        need(
            not host_waited(run["launched"]),
            f"With {micro_batches} micro-batches: the devices work at once, but in the loop Python waits for one of "
            "them before it launches more. A copy between devices needs no waiting.",
        )
        need(
            not run["races"],
            f"With {micro_batches} micro-batches: a stream read {times(run['races'])} what another had not finished "
            "writing, and may have read anything. Let it wait for the other: stream.wait_stream(other)",
        )


@ex1.fact("both devices work at the same time (watched where devices are simulated)")
def _(student):
    need_overlap(student, *student.devices, 6)


# --- ex2: one step of training ------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="One step of training, a loss for each micro-batch",
    hints=[
        "loss_fn gives the mean over the rows that it gets. The mean over all rows is not the mean of these means, "
        "unless all micro-batches have the same number of rows.",
        "Which weight makes each row count the same? Think of a last micro-batch that has one row.",
        "backward() adds to the gradients that are there. So what belongs before the loop, what into it, and what "
        "after it?",
        "The targets are cut in the same way as the batch. Where do they have to be?",
    ],
)


def run_train_step(lab, device0, device1, widths, x, y, size, loss, steps):
    import torch
    from torch import nn

    from utils.facts.probes import array, fill, kind_of

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0 = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh()).to(device0)
            self.part1 = nn.Linear(widths[1], widths[2]).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    model = Split()
    fill(model, 4)
    parameters = list(model.parameters())
    optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    sizes, seen, losses = [], [], []
    model.part0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    optimizer.register_step_post_hook(  # after it: a closure computes the gradients in the step
        lambda *_: seen.append([None if p.grad is None else array(p.grad).copy() for p in parameters])
    )
    for p in parameters:
        p.grad = torch.ones_like(p)  # left over from earlier
    for _ in range(steps):
        found = lab.train_step(model, optimizer, getattr(nn, loss)(), torch.from_numpy(x), torch.from_numpy(y), size)
        losses.append(found if type(found) is float else kind_of(found))
    return {
        "sizes": sizes,
        "updates": len(seen),
        "gradients": seen[0] if seen else [],
        "losses": losses,
        "parameters": [array(p) for p in parameters],
        "places": [str(p.device) for p in parameters],
    }


def expected_train_step(widths, x, y, loss, steps):
    model = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2]))
    fill(model, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses, gradients = [], None
    for _ in range(steps):
        value = getattr(nn, loss)()(model(torch.from_numpy(x)), torch.from_numpy(y))
        optimizer.zero_grad()
        value.backward()
        if gradients is None:
            gradients = [p.grad.numpy().copy() for p in model.parameters()]
        optimizer.step()
        losses.append(value.item())
    return losses, gradients, [p.detach().numpy() for p in model.parameters()]


def compare_train_step(student, device0, device1, rows, size, *, widths=(5, 12, 3), loss="MSELoss", seed=2):
    x = numbers(rows, widths[0], seed=seed)
    y = numbers(rows, widths[2], seed=seed + 1)
    if loss == "CrossEntropyLoss":
        y = y.argmax(axis=1)
    with case(f"With {rows} rows, size={size} and {loss}"):
        run = student.run(run_train_step, device0, device1, list(widths), x, y, size, loss, 2)
        losses, gradients, parameters = expected_train_step(widths, x, y, loss, 2)
        need(run["updates"] != 0, "optimizer.step() was never called.")
        need(
            run["updates"] == 2,
            f"for 2 batches optimizer.step() was called {run['updates']} times. One update for each batch.",
        )
        compare_sizes(run["sizes"][: len(run["sizes"]) // 2], rows, size)
        compare_gradients(
            run["gradients"],
            gradients,
            "(Before the step every parameter had an old gradient of ones, which should not count.)",
        )
        strange = [found for found in run["losses"] if not isinstance(found, float)]
        need(not strange, f"train_step returned {strange[0] if strange else ''}. Return a Python float.")
        need(
            np.allclose(run["losses"], losses, rtol=1e-4),
            f"the losses of two steps are {losses[0]:.4f} and {losses[1]:.4f} over the whole batch, and train_step "
            f"says {run['losses'][0]:.4f} and {run['losses'][1]:.4f}.",
        )
        right = all(same(mine, theirs) for mine, theirs in zip(run["parameters"], parameters, strict=True))
        need(right, "after two steps the parameters differ from those that the whole batch gives.")
        places = [device0, device0, device1, device1]
        need(run["places"] == places, f"afterwards the parameters are on {', '.join(run['places'])}.")


@ex2.fact("equal micro-batches: one update, with the gradients and the loss of the whole batch")
def _(student):
    compare_train_step(student, *student.devices, 12, 4)


@ex2.fact("the last micro-batch smaller: one update, with the gradients and the loss of the whole batch")
def _(student):
    compare_train_step(student, *student.devices, 10, 4)


# --- ex3: a loop that does not overlap ----------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="Mend a loop that does not overlap",
    hints=[
        "device0 works in the order in which it was given its work. After the first turn of the given loop, what is "
        "the next thing that device0 was given: a forward pass or a backward pass?",
        "All forward passes first. What has to be kept of each turn, so that backward can come later?",
        "Which line of the loop wants a number that a device has not computed yet? When is it early enough to ask?",
        "Losses are tensors. They can wait in a list, and they can be added up.",
    ],
)


def run_overlapping(lab, device0, device1, widths, x, y, size):
    import torch
    from torch import nn

    from utils.facts.probes import array, fill, kind_of

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0 = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh()).to(device0)
            self.part1 = nn.Linear(widths[1], widths[2]).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    model = Split()
    fill(model, 6)
    sizes = []
    model.part0[0].register_forward_hook(lambda module, inputs, output: sizes.append(len(inputs[0])))
    x, y = torch.from_numpy(x).to(device0), torch.from_numpy(y).to(device1)
    loss = lab.overlapping(model, nn.MSELoss(), x, y, size)
    return {
        "sizes": sizes,
        "loss": loss if type(loss) is float else kind_of(loss),
        "gradients": [None if p.grad is None else array(p.grad) for p in model.parameters()],
        "places": [str(p.device) for p in model.parameters()],
    }


def compare_overlapping(student, device0, device1, rows, size, *, widths=(4, 9, 2), seed=5):
    x, y = numbers(rows, widths[0], seed=seed), numbers(rows, widths[2], seed=seed + 1)
    whole = nn.Sequential(nn.Linear(widths[0], widths[1]), nn.Tanh(), nn.Linear(widths[1], widths[2]))
    fill(whole, 6)
    loss = nn.functional.mse_loss(whole(torch.from_numpy(x)), torch.from_numpy(y))
    loss.backward()
    with case(f"With {rows} rows and size={size}"):
        run = student.run(run_overlapping, device0, device1, list(widths), x, y, size)
        compare_sizes(run["sizes"], rows, size)
        need(isinstance(run["loss"], float), f"overlapping returned {run['loss']}. Return a Python float.")
        need(
            math.isclose(run["loss"], loss.item(), rel_tol=1e-4),
            f"the loss of the whole batch is {loss.item():.4f}, and overlapping says {run['loss']:.4f}.",
        )
        compare_gradients(run["gradients"], [p.grad.numpy() for p in whole.parameters()], "")
        places = [device0, device0, device1, device1]
        need(run["places"] == places, f"afterwards the parameters are on {', '.join(run['places'])}.")


@ex3.fact("the loss and the gradients are those of the whole batch, as in the given loop")
def _(student):
    compare_overlapping(student, *student.devices, 12, 4)
    compare_overlapping(student, *student.devices, 7, 3)


def watch_overlapping(lab, device0, device1, rows, size):
    """How long forward and backward took on the simulated clock, and how long each device had to do."""
    from dataclasses import asdict

    import torch
    from torch import nn

    from utils.devices import is_simulated
    from utils.trace import record

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            # A sum of very many numbers for very few results is slow on a GPU and quick here.
            slow = nn.Linear(8, 60_000), nn.Linear(60_000, 8)
            self.part0 = nn.Sequential(nn.Linear(8, 8), *slow).to(device0)
            self.part1 = nn.Sequential(nn.Linear(8, 60_000), nn.Linear(60_000, 8)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    model = Split()
    x, y = torch.randn(rows, 8).to(device0), torch.randn(rows, 8).to(device1)
    with record(device0, device1) as timeline:
        lab.overlapping(model, nn.MSELoss(), x, y, size)
    exact, busy = "virtual clock" in timeline.source, [timeline.busy(device0), timeline.busy(device1)]
    return {"watched": exact, "span": timeline.span, "busy": busy, "timeline": asdict(timeline)}


def need_share(student, device0, device1, rows, size):
    """At least ENOUGH of the bound: m micro-batches take the busier device's work, and one turn more."""
    m = number_of(rows, size)
    run = student.run(watch_overlapping, device0, device1, rows, size)
    if run["watched"]:
        share = max(run["busy"]) * (m + 1) / m / run["span"] if run["span"] else 0.0
        need(
            share >= ENOUGH,
            f"With {m} micro-batches: on the simulated clock it reaches {share:.0%} of the bound, and {ENOUGH:.0%} are "
            "wanted. Does anything in a loop wait for a number, or does a backward pass come before a forward pass?",
        )


@ex3.fact(f"it reaches {ENOUGH:.0%} of the bound that its own kernels allow (where devices are simulated)")
def _(student):
    need_share(student, *student.devices, 128, 16)


@ex3.timeline
def _(student):
    return student.run(watch_overlapping, *student.devices, 64, 8)["timeline"]


# --- ex4: how many micro-batches ----------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=1,
    title="How many micro-batches?",
    hints=[
        "For one m: how many rows has the largest micro-batch? The bubble makes how many turns of it?",
        "There are at most `rows` micro-batches, so try all. Leave out those that do not fit, then take the fastest.",
        "min of an empty list raises. What should come back then?",
    ],
)


def ask_micro_batches(lab, rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    from utils.facts.probes import kind_of

    found = lab.best_micro_batches(rows, parts, row_seconds, launch_seconds, row_bytes, memory)
    if found is None:
        return None
    if isinstance(found, bool) or not hasattr(found, "__index__"):
        return f"{found!r:.40}, {kind_of(found)}"
    return int(found)


def compare_micro_batches(student, rows, parts, row_seconds, launch_seconds, row_bytes, memory):
    def largest(m):
        return number_of(rows, m)

    def seconds(m):
        return (m + parts - 1) * (launch_seconds + largest(m) * row_seconds)

    fitting = {m: seconds(m) for m in range(1, rows + 1) if largest(m) * row_bytes <= memory}
    words = f"rows={rows}, parts={parts}, row_seconds={row_seconds}, launch_seconds={launch_seconds}, "
    with case(f"For {words}row_bytes={row_bytes}, memory={memory}"):
        m = student.run(ask_micro_batches, rows, parts, row_seconds, launch_seconds, row_bytes, memory)
        if not fitting:
            need(m is None, f"not even one row fits, and best_micro_batches returned {m}.")
            return
        need(m is not None, "it returned None, and there are numbers of micro-batches that fit.")
        need(not isinstance(m, str), f"best_micro_batches returned {m}. Return a whole number.")
        need(1 <= m <= rows, f"best_micro_batches returned {m}. There are 1 to {rows} micro-batches.")
        need(
            m in fitting,
            f"with {m} micro-batches the largest has {largest(m)} rows, which need {largest(m) * row_bytes} bytes.",
        )
        best = min(fitting.values())
        need(
            math.isclose(fitting[m], best, rel_tol=1e-9),
            f"{m} micro-batches take {fitting[m]:.6g} s, and another number that fits takes {best:.6g} s.",
        )


@ex4.fact("with enough memory it is the number that takes the least time")
def _(student):
    compare_micro_batches(student, 32, 2, 0.001, 0.002, 10, 10_000)
    compare_micro_batches(student, 30, 3, 0.001, 0.004, 10, 10_000)


@ex4.fact("memory that is short rules out large micro-batches")
def _(student):
    compare_micro_batches(student, 30, 2, 0.001, 0.5, 100, 800)


# --- ex5: less memory ---------------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    points=2,
    title="Compute again, instead of keeping",
    hints=[
        "checkpoint(part, piece, use_reentrant=False) computes part(piece), and keeps only piece.",
        "Both parts have activations, each on its own device. Which lines of your loop make them?",
        "A row of the batch needs no gradient, but the weights that it meets do. With use_reentrant=True the first "
        "part gets none.",
        "What is kept of each micro-batch should be what goes into a part, and no more.",
    ],
)


def run_recomputed(lab, device0, device1, x, size, watch):
    import torch
    from torch import nn

    from utils.devices import is_simulated
    from utils.facts.probes import array, kind_of

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            stack = [[nn.Linear(32, 32), nn.Tanh()] for _ in range(12)]
            layers = [layer for pair in stack for layer in pair]
            self.part0 = nn.Sequential(nn.Linear(4, 32), *layers[:12]).to(device0)
            self.part1 = nn.Sequential(*layers[12:], nn.Linear(32, 3)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    def keeping(model, x, size):
        return torch.cat([model(piece) for piece in x.split(size)])

    def step(forward):
        """The output of a forward and backward pass, and the most bytes that it took on each device."""
        model.zero_grad()
        before = [gpu.memory_allocated(device) for device in (device0, device1)] if simulated else []
        for device in (device0, device1) if simulated else ():
            gpu.reset_peak_memory_stats(device)
        output = forward(model, x, size)
        before_backward = [len(rows) for rows in called]
        if isinstance(output, torch.Tensor):
            output.square().mean().backward()
        peaks = [gpu.max_memory_allocated(device) for device in (device0, device1)] if simulated else []
        again = [sum(rows[start:]) for rows, start in zip(called, before_backward, strict=True)]
        return output, [peak - start for peak, start in zip(peaks, before, strict=True)], again

    torch.manual_seed(8)
    model = Split()
    called = [], []  # how many rows each call of a part was given
    for first, rows_of in ((model.part0[0], called[0]), (model.part1[0], called[1])):
        first.register_forward_pre_hook(lambda module, inputs, rows=rows_of: rows.append(len(inputs[0])))
    simulated = watch and is_simulated(device0) and is_simulated(device1)
    gpu = torch.get_device_module(device0) if simulated else None
    x = torch.from_numpy(x)
    expected, most, _ = step(keeping)
    expected = array(expected)
    gradients = [array(p.grad).copy() for p in model.parameters()]
    for rows in called:
        rows.clear()
    output, mine, again = step(lab.recomputed)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"recomputed returned {kind_of(output)}. Return one tensor."}
    return {
        "output": array(output),
        "device": str(output.device),
        "gradients": [None if p.grad is None else array(p.grad) for p in model.parameters()],
        "sizes": called[0],
        "again": again,
        "expected output": expected,
        "expected gradients": gradients,
        "kept": most,
        "recomputed": mine,
    }


def recompute(student, device0, device1, rows, size, seed=3):
    run = student.run(run_recomputed, device0, device1, numbers(rows, 4, seed=seed), size, True)
    need("wrong" not in run, run.get("wrong", ""))
    return run


def compare_recomputed(student, device0, device1, rows, size, seed=3):
    with case(f"With {rows} rows and size={size}"):
        run = recompute(student, device0, device1, rows, size, seed)
        need(run["sizes"], "the first part was never called.")
        need(
            max(run["sizes"]) <= size,
            f"the first part was given {max(run['sizes'])} rows at once, and a micro-batch has {size} at most.",
        )
        need(run["device"] == device1, f"the output is on {run['device']}, not on {device1}.")
        need(
            same(run["output"], run["expected output"]),
            "the output differs from that of the whole batch. Is every micro-batch there, in its place?",
        )
        compare_gradients(run["gradients"], run["expected gradients"], "")
        for part, again in zip(("part0", "part1"), run["again"], strict=True):
            need(
                again >= rows,
                f"in backward() {part} was given {again} of the {rows} rows again. Its activations are to be computed "
                "again there, and kept nowhere.",
            )


@ex5.fact("the output and every gradient are as without recomputing, and both parts compute again in backward")
def _(student):
    compare_recomputed(student, *student.devices, 24, 6)
    compare_recomputed(student, *student.devices, 10, 4)


def watch_dropout(lab, device0, device1, x, size):
    """Which numbers the dropout of each part dropped in forward, and which in backward: a mask for each call."""
    import torch
    from torch import nn

    from utils.facts.probes import array

    class Split(nn.Module):
        def __init__(self):
            super().__init__()
            self.device0, self.device1 = torch.device(device0), torch.device(device1)
            self.part0 = nn.Sequential(nn.Linear(4, 16), nn.Dropout(), nn.Linear(16, 16), nn.Tanh()).to(device0)
            self.part1 = nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 3)).to(device1)

        def forward(self, x):
            return self.part1(self.part0(x.to(self.device0)).to(self.device1))

    torch.manual_seed(9)
    model = Split()
    dropped = [], []
    for part, masks in ((model.part0, dropped[0]), (model.part1, dropped[1])):
        part[1].register_forward_hook(lambda module, inputs, output, masks=masks: masks.append(array(output == 0)))
    output = lab.recomputed(model, torch.from_numpy(x), size)
    forward = [len(masks) for masks in dropped]
    output.square().mean().backward()
    return {
        "forward": [masks[:count] for masks, count in zip(dropped, forward, strict=True)],
        "backward": [masks[count:] for masks, count in zip(dropped, forward, strict=True)],
    }


def compare_dropout(student, device0, device1, rows, size):
    run = student.run(watch_dropout, device0, device1, numbers(rows, 4), size)
    for part, first, again in zip(("part0", "part1"), run["forward"], run["backward"], strict=True):
        known = {mask.tobytes() for mask in first}
        need(
            {mask.tobytes() for mask in again} <= known,
            f"With dropout in it, {part} dropped other numbers when it was computed again than in the forward pass. So "
            "the gradients are not those of the output. (checkpoint keeps what random numbers come next on the devices "
            "of the tensors that it is given, and on no other device.)",
        )


def need_less_memory(student, device0, device1, rows, size):
    with case(f"With {rows} rows and size={size}"):
        run = recompute(student, device0, device1, rows, size)
        for device, kept, mine in zip((device0, device1), run["kept"], run["recomputed"], strict=False):
            need(
                mine <= 0.6 * kept,
                f"at its fullest moment {device} held {mine} bytes more than before, and {kept} without recomputing. "
                "It should be less than 60% of that. What is still kept there?",
            )


@ex5.fact("both devices need less than 60% of the memory of the ordinary pipeline (where devices are simulated)")
def _(student):
    need_less_memory(student, *student.devices, 4096, 512)
