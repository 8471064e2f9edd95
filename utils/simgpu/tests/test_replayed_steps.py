"""A replayed step tells the machine what its operators would: equal times, records and bytes, to the last digit."""

import warnings
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import simgpu
from simgpu import faults

DEVICES = "simgpu:0", "simgpu:1"
CALLS = 7


class Seen(NamedTuple):
    """What a run can tell: after each call the time and bytes, and in the end every record."""

    calls: list
    records: list
    unwaited: list
    races: list


def run(make, wrap, calls=CALLS, batch=lambda: torch.empty(4, 16, dtype=torch.int64, device=DEVICES[0]), **machine):
    """(what was seen of so many calls of a step on a new machine, the step)."""
    simgpu.enable(count=3)
    simgpu.enable(**{"count": 2, "compute": False} | machine)
    gpus, seen = torch.simgpu, []
    step = wrap(make())
    with simgpu.unfinished_reads() as races, warnings.catch_warnings(), simgpu.copying_shapes():
        warnings.simplefilter("ignore")
        for _ in range(calls):
            for number in range(2):
                gpus.reset_peak_memory_stats(number)
            out = step(batch())
            out = out["loss"] if isinstance(out, dict) else out
            memories = (gpus.memory_stats(number) for number in range(2))
            seen.append((simgpu.now(), *memories, None if out is None else (out.shape, out.dtype, out.device)))
        gpus.synchronize(0)
        gpus.synchronize(1)
    return Seen([*seen, simgpu.now()], simgpu.log(), simgpu.unwaited_copies(), races), step


def same_as_by_operators(make, replays=CALLS - 3, **more):
    """Check that a step is replayed so many times, and that nothing else tells it from the step itself."""
    by_operators, _ = run(make, lambda step: step, **more)
    seen, step = run(make, simgpu.replayed, **more)
    assert (step.why, step.replays) == ("", replays)
    assert seen == by_operators
    return by_operators


# --- models ----------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """A block of GPT."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width))

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norms[1](x))


def gpt(device=DEVICES[0], blocks=2):
    return nn.Sequential(nn.Embedding(64, 32), *(Block() for _ in range(blocks)), nn.Linear(32, 64)).to(device)


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())


def with_autocast(optimizer=torch.optim.AdamW, **more):
    def make():
        model = gpt()
        adam = optimizer(model.parameters(), lr=1e-3, **more)

        def step(tokens):
            adam.zero_grad()
            with simgpu.label("forward"), torch.autocast("simgpu", dtype=torch.bfloat16):
                loss = loss_of(model, tokens)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            adam.step()
            return loss.detach()

        return step

    return make


@pytest.mark.parametrize("more", [{}, {"foreach": False}, {"fused": True}], ids=lambda more: next(iter(more), "usual"))
def test_gpt_with_autocast_and_adamw(more):
    seen = same_as_by_operators(with_autocast(**more))
    assert {record.label for record in seen.records} == {"forward", ""}
    assert {record.phase for record in seen.records} == {"forward", "backward", "optimizer"}


@torch.no_grad()
def test_a_first_step_that_makes_no_state_is_the_first_of_two():
    def make():
        model = gpt()
        return lambda tokens: model(tokens).clone()  # in PyTorch 2.13, a linear layer's output may be a view

    same_as_by_operators(make, replays=CALLS - 2)


def over_two_devices():
    first, second = nn.Linear(16, 64).to(DEVICES[0]), nn.Linear(64, 16).to(DEVICES[1])
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])

    def step(tokens):
        loss = second(first(tokens.float()).relu().to(DEVICES[1])).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        told = loss.detach().to("cpu", non_blocking=True)
        torch.simgpu.synchronize(1)
        return {"loss": loss.detach(), "on the host": told is not None}

    return step


def test_two_devices_with_copies_between():
    seen = same_as_by_operators(over_two_devices)
    assert {record.kind for record in seen.records} >= {"d2d", "d2h", "kernel"}


def with_streams(priority=0, waits=True):
    """Batches come in on a stream of their own, and a side stream computes a part, with events between."""

    def make():
        side, coming = torch.simgpu.Stream(0, priority=priority), torch.simgpu.Stream(0)
        left, right = (nn.Linear(16, 16).to(DEVICES[0]) for _ in range(2))
        optimizer = torch.optim.SGD([*left.parameters(), *right.parameters()], lr=0.1, momentum=0.9)
        done = torch.simgpu.Event()
        host = torch.empty(64, 16).pin_memory()

        def step(tokens):
            optimizer.zero_grad()
            with torch.simgpu.stream(coming):
                coming.wait_event(done)  # of the step before
                more = host.to(DEVICES[0], non_blocking=True)
                arrived = coming.record_event()
            x = tokens.float().repeat(1 << 20, 1)  # long enough that who does not wait comes too early
            side.wait_stream(torch.simgpu.current_stream(0))
            with torch.simgpu.stream(side):
                part = right(x)
            here = torch.simgpu.current_stream(0)
            if waits:
                here.wait_stream(side)
            mean = part.mean()
            here.wait_event(arrived)
            loss = (mean + left(more).mean() + left(x).mean()).to(DEVICES[1]) * 2
            loss.backward()
            optimizer.step()
            done.record()
            arrived.synchronize()
            side.synchronize()
            return loss.detach()

        return step

    return make


@pytest.mark.parametrize("priority", [0, -1])
def test_streams_and_events(priority):
    seen = same_as_by_operators(with_streams(priority))
    assert {(record.device, record.stream) for record in seen.records} == {(0, 0), (0, 1), (0, 2), (1, 0)}
    assert not seen.races


def test_reads_of_what_is_not_finished_are_found_in_a_replay_too():
    assert len(same_as_by_operators(with_streams(waits=False)).races) >= CALLS - 1


def in_micro_batches():
    """GPipe over two devices: forward passes of all micro-batches, then their backward passes."""
    halves = [nn.Sequential(*(nn.Linear(16, 16) for _ in range(3))).to(device) for device in DEVICES]
    optimizer = torch.optim.AdamW([parameter for half in halves for parameter in half.parameters()])

    def step(tokens):
        losses = [halves[1](halves[0](part.float()).to(DEVICES[1])).mean() for part in tokens.chunk(4)]
        for loss in losses:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def test_a_pipeline():
    same_as_by_operators(in_micro_batches)


def test_what_slows_a_gpu_slows_a_replay():
    """Jitter draws a number for each kernel, so that no two steps take the same time."""
    same_as_by_operators(in_micro_batches, faults=(faults.Jitter(0.2, 1), faults.SlowGpu(1, 1.5)))


def test_recomputation():
    from torch.utils.checkpoint import checkpoint

    def make():
        model = gpt()
        optimizer = torch.optim.AdamW(model.parameters())

        def step(tokens):
            x = model[0](tokens)
            for block in model[1:-1]:
                x = checkpoint(block, x, use_reentrant=False)
            model[-1](x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()

        return step

    same_as_by_operators(make)


# --- what is not replayed ---------------------------------------------------------------------------------------------


def linear_step(more=lambda tokens: None):
    """A step that does something more, whose result it returns."""

    def make():
        layer = nn.Linear(16, 16).to(DEVICES[0])
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(tokens):
            optimizer.zero_grad()
            layer(tokens.float()).mean().backward()
            optimizer.step()
            return more(tokens)

        return step

    return make


kept: list = []
REFUSED = {
    "it reads the clock": lambda tokens: simgpu.now() and None,
    "asks whether a stream or an event is done": lambda tokens: torch.simgpu.current_stream(0).query() and None,
    "it reads the log": lambda tokens: simgpu.log() and None,
    "it makes a stream": lambda tokens: torch.simgpu.Stream(0).wait_stream(torch.simgpu.current_stream(0)),
    "holds +512 bytes after it": lambda tokens: kept.append(tokens.float().mean()),
    "it leaves another GPU": lambda tokens: torch.simgpu.set_device(1 - torch.simgpu.current_device()),
    "there before, or the same one twice": lambda tokens: tokens,
    "returns a Stream": lambda tokens: torch.simgpu.current_stream(0),
    "the same twice": lambda tokens: kept.append(0) or len(kept),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_cannot_be_replayed_runs_by_operators_and_says_why(why):
    kept.clear()
    make = linear_step(REFUSED[why])
    by_operators, _ = run(make, Dropping)
    kept.clear()
    seen, step = run(make, lambda step: Dropping(simgpu.replayed(step)))
    assert step.step.replays == 0
    assert why in step.step.why
    assert seen == by_operators


def own_mean(tokens):
    kept[:] = [tokens.float().mean()]
    return kept[0]


def a_view_is_kept(tokens):
    doubled = tokens * 2
    kept[:] = [doubled[0]]
    return {"doubled": doubled}


@pytest.mark.parametrize("more", [own_mean, a_view_is_kept])
def test_a_result_that_the_step_keeps_is_not_made_again(more):
    def held_by_both(wrap):
        simgpu.enable(count=3)
        simgpu.enable(count=2, compute=False)
        kept.clear()
        step, held = wrap(linear_step(more)()), []
        for _ in range(CALLS):
            held = [step(torch.empty(4, 16, dtype=torch.int64, device=DEVICES[0])), torch.simgpu.memory_allocated(0)]
        return held[1], step

    allocated, step = held_by_both(simgpu.replayed)
    assert step.replays == 0
    assert "something else keeps" in step.why
    assert allocated == held_by_both(lambda step: step)[0]


class Dropping:
    """A step whose result is dropped."""

    def __init__(self, step):
        self.step = step

    def __call__(self, tokens):
        self.step(tokens)


@pytest.mark.parametrize("machine", [{"compute": True}, {"clock": "paced"}])
def test_values_and_the_wall_clock_are_not_replayed(machine):
    simgpu.enable(count=2, **{"compute": False} | machine)
    step = simgpu.replayed(linear_step()())
    for _ in range(4):
        step(torch.zeros(4, 16, dtype=torch.int64, device=DEVICES[0]))
    assert step.replays == 0
    assert "simgpu.enable" in step.why


def test_eight_calls_in_vain_are_warned_of():
    simgpu.enable(count=2, compute=False)
    step = simgpu.replayed(linear_step(lambda tokens: simgpu.now() and None)())
    batch = torch.empty(4, 16, dtype=torch.int64, device=DEVICES[0])
    for _ in range(7):
        step(batch)
    with pytest.warns(RuntimeWarning, match="8 calls in a row ran operator by operator: it reads the clock"):
        step(batch)


def test_what_changes_between_calls_is_noticed():
    """Another batch, another mode, freed gradients: each is noted again, and what was known is replayed again."""

    def make():
        model = gpt()
        optimizer = torch.optim.AdamW(model.parameters())

        def step(tokens, optimize=True):
            optimizer.zero_grad()
            loss = loss_of(model, tokens)
            if torch.is_grad_enabled():
                loss.backward()
                if optimize:
                    optimizer.step()
            return loss.detach()

        return step, model

    def program(wrap):
        simgpu.enable(count=3)
        simgpu.enable(count=2, compute=False)
        step, model = make()
        step, seen, losses = wrap(step), [], []

        def call(*shape, **more):
            losses.append(step(torch.empty(*shape, dtype=torch.int64, device=DEVICES[0]), **more))  # all are kept
            seen.append((simgpu.now(), torch.simgpu.memory_stats(0)))

        for shape in [(4, 16)] * 5 + [(2, 16)] * 3 + [(4, 16)] * 2 + [(2, 16)]:
            call(*shape)
        for optimize in (False, False, False, True):
            call(4, 16, optimize=optimize)
        with torch.autocast("simgpu", dtype=torch.bfloat16):
            call(4, 16)
        model.zero_grad()
        call(4, 16)
        call(4, 16)
        return seen, simgpu.log(), getattr(step, "replays", None)

    by_operators, replayed = program(lambda step: step), program(simgpu.replayed)
    assert replayed[:2] == by_operators[:2]
    assert replayed[2] == 2 + 1 + 2 + 1 + 1 + 0 + 0 + 1


def test_a_step_that_no_longer_fits_ends_in_the_error_of_its_own():
    simgpu.enable(count=2, compute=False)
    step = simgpu.replayed(linear_step(lambda tokens: tokens.float().repeat(1 << 20, 1).mean())())
    batch = torch.empty(4, 16, dtype=torch.int64, device=DEVICES[0])
    for _ in range(5):
        step(batch)
    assert step.replays == 2
    torch.simgpu.set_per_process_memory_fraction(1e-3, 0)
    with pytest.raises(torch.OutOfMemoryError, match=r"Tried to allocate 256.00 MiB"):
        step(batch)
    torch.simgpu.set_per_process_memory_fraction(1.0, 0)


def test_nothing_is_left_in_front_of_the_machine():
    from simgpu.hardware import machine
    from simgpu.tensor import SimTensor

    simgpu.enable(count=2, compute=False)
    before = dict(vars(machine)), SimTensor.__dict__["__torch_dispatch__"], machine.gpus[0].memory.history

    def fails(tokens):
        raise ValueError("of the step's own")

    with pytest.raises(ValueError, match="own"):
        simgpu.replayed(fails)(torch.empty(4, device=DEVICES[0]))
    assert (dict(vars(machine)), SimTensor.__dict__["__torch_dispatch__"], machine.gpus[0].memory.history) == before
    assert "launch" not in vars(machine)


def test_memory_does_not_stay_with_the_plan():
    simgpu.enable(count=2, compute=False)

    def steps():
        step = simgpu.replayed(with_autocast()())
        for _ in range(6):
            loss = step(torch.empty(4, 16, dtype=torch.int64, device=DEVICES[0]))
        assert step.replays == 3
        del loss
        step._step = None
        return step

    step = steps()
    import gc

    gc.collect()
    assert step is not None
    assert torch.simgpu.memory_allocated(0) == 0
