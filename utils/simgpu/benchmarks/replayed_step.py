"""How many operators a second a training step makes, operator by operator and replayed. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.replayed_step

Shapes only, with the log on and in CPU time, the least of some repeats, in turns in one run; all of it twice. What is
counted are operators that meet a simulated tensor in a step, those of the backward pass and of the optimizer included.
A replay is only worth something with equal times: so both run the same number of steps on machines of their own, and
the host's time and all records are compared to the last digit.
"""

import time
from unittest import mock

import torch
import torch.nn.functional as F
from torch import nn

import simgpu
from simgpu.tensor import SimTensor

WARM, REPEATS = 4, 15  # steps


class Block(nn.Module):
    def __init__(self, width=256, heads=8):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        rows, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norms[1](x))


def gpt():
    """Four blocks with autocast and AdamW."""
    parts = nn.Embedding(1000, 256), *(Block() for _ in range(4)), nn.LayerNorm(256), nn.Linear(256, 1000)
    model = nn.Sequential(*parts).to("simgpu:0")
    optimizer = torch.optim.AdamW(model.parameters())

    def step(tokens):
        optimizer.zero_grad()
        with torch.autocast("simgpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(tokens).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def pipeline():
    """GPipe with four micro-batches over two devices, whose copies have streams of their own."""
    halves = [nn.Sequential(*(Block() for _ in range(2))).to(f"simgpu:{number}") for number in range(2)]
    optimizer = torch.optim.AdamW([parameter for half in halves for parameter in half.parameters()])
    streams = [torch.simgpu.Stream(number) for number in range(2)]

    def moved(x):
        for number, stream in enumerate(streams):
            stream.wait_stream(torch.simgpu.current_stream(number))
        with streams[0], streams[1]:
            x = x.to("simgpu:1")
        torch.simgpu.current_stream(1).wait_stream(streams[1])
        return x

    def step(tokens):
        x = torch.empty(*tokens.shape, 256, device="simgpu:0")
        losses = [halves[1](moved(halves[0](part))).square().mean() for part in x.chunk(4)]
        for loss in losses:
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds_and_times(make, wrap):
    """(CPU seconds of a step, the simulated times of all, the step)."""
    simgpu.enable(count=3)
    simgpu.enable(count=2, compute=False)
    step, took = wrap(make()), []
    for _ in range(WARM + REPEATS):
        tokens = torch.empty(8, 128, dtype=torch.int64, device="simgpu:0")
        begin = time.process_time()
        step(tokens)
        took.append(time.process_time() - begin)
    return min(took[WARM:]), (simgpu.now(), simgpu.log()), step


def operators_in(make) -> int:
    """How many operators meet a simulated tensor in a step."""
    simgpu.enable(count=3)
    simgpu.enable(count=2, compute=False)
    step, tokens = make(), torch.empty(8, 128, dtype=torch.int64, device="simgpu:0")
    step(tokens)
    count, dispatch = 0, SimTensor.__torch_dispatch__

    def counting(cls, func, types, args=(), kwargs=None):
        nonlocal count
        count += 1
        return dispatch(func, types, args, kwargs)

    with mock.patch.object(SimTensor, "__torch_dispatch__", classmethod(counting)):
        step(tokens)
    return count


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, shapes only, operators a second")
    print("                operators    one by one      replayed   ratio")
    counts = {make: operators_in(make) for make in (gpt, pipeline)}
    for _ in range(2):
        for make, count in counts.items():
            one_by_one, times, _ = seconds_and_times(make, lambda step: step)
            again, same_times, step = seconds_and_times(make, simgpu.replayed)
            assert step.replays == WARM - 3 + REPEATS, step.why
            assert same_times == times
            rates = f"{count / one_by_one:>14,.0f}{count / again:>14,.0f}{one_by_one / again:>8.1f}"
            print(f"{make.__name__:<16}{count:>9}{rates}")


if __name__ == "__main__":
    main()
