"""Which tool finds which error of a program for several GPUs, on a machine without any, and what each costs:

    .venv/bin/python utils/simgpu/benchmarks/which_for_what.py

Each program below has one error. It runs on tensors of the meta device, in FakeTensorMode with PyTorch's fake process
group, on the CPU with gloo, and on simulated GPUs with their own backend; the table says who noticed. What a training
step costs is CPU time, from the same run.
"""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext

import torch
import torch.distributed as dist
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.testing._internal.distributed.fake_pg import FakeStore

import simgpu
from simgpu.threads import on_gpus

TOOLS = ("meta", "FakeTensorMode", "gloo", "simgpu")
PATIENCE = 60  # seconds, until ranks that wait for each other are given up
GPU_BYTES = 16e9


# --- programs with an error: `gpu(n)` is the device of GPU n; each returns whether a check of its own fails -----------


def wrong_size(gpu):
    nn.Linear(8, 4, device=gpu(0))(torch.ones(2, 9, device=gpu(0)))


def left_on_the_cpu(gpu):
    nn.Linear(8, 4, device=gpu(0))(torch.ones(2, 8))


def on_another_gpu(gpu):
    first, second = nn.Linear(8, 8, device=gpu(0)), nn.Linear(8, 8, device=gpu(1))
    second(first(torch.ones(2, 8, device=gpu(0))))


def does_not_fit(gpu):
    """12 GB of weights, as much of gradients: more than a GPU of 16 GB has."""
    weights = torch.empty(3_000_000_000, device=gpu(0))
    gradients = torch.empty_like(weights)
    return max(weights.nbytes, gradients.nbytes) > GPU_BYTES


def reads_a_value(gpu):
    """Not an error: what a program that stops on a loss that is NaN needs."""
    return torch.full((), float("nan"), device=gpu(0)).isnan().item()


def added_not_averaged(gpu):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    gradient = torch.full((4,), float(rank), device=gpu(rank))
    dist.all_reduce(gradient)
    return not torch.equal(gradient.cpu(), torch.full((4,), sum(range(ranks)) / ranks))


def other_collectives(gpu):
    rank = dist.get_rank()
    x = torch.ones(4, device=gpu(rank))
    if rank == 0:
        dist.all_reduce(x)
    else:
        dist.all_gather_into_tensor(torch.empty(8, device=gpu(rank)), x)


def other_sizes(gpu):
    rank = dist.get_rank()
    dist.all_reduce(torch.ones(4 + rank, device=gpu(rank)))


ALONE = (wrong_size, left_on_the_cpu, on_another_gpu, does_not_fit, reads_a_value)
TOGETHER = (added_not_averaged, other_collectives, other_sizes)
TOLD = {
    wrong_size: "an input of the wrong size",
    left_on_the_cpu: "a batch that was left on the CPU",
    on_another_gpu: "an activation on another GPU than the layer",
    does_not_fit: "more than 16 GB on a GPU",
    reads_a_value: "a loss that is NaN",
    added_not_averaged: "gradients that are added and not averaged",
    other_collectives: "ranks that call different collectives",
    other_sizes: "ranks that call one with different sizes",
}


# --- the tools ----------------------------------------------------------------------------------------------------


def noticed(program, gpu) -> str:
    try:
        return "yes" if program(gpu) else "no"
    except Exception as error:
        return _in_a_line(error)


def _in_a_line(error: Exception) -> str:
    told = f"{type(error).__name__}, {' '.join(str(error).split())[:100]}"
    return f"has no values: {told}" if "item()" in told or "DataDependent" in told else f"yes: {told}"


def by_meta(program) -> str:
    if program in TOGETHER:
        return "-"
    return noticed(program, lambda number: torch.device("meta"))


def by_fake(program) -> str:
    if program in TOGETHER:
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    with FakeTensorMode():
        found = noticed(program, lambda number: torch.device("cuda", number))
    if program in TOGETHER:
        dist.destroy_process_group()
    return found


def by_gloo(program) -> str:
    if program in ALONE:
        return noticed(program, lambda number: torch.device("cpu"))
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, program.__name__, os.path.join(folder, "store")]
        ranks = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            for rank in range(2)
        ]
        try:
            told = [rank.communicate(timeout=PATIENCE)[0].strip() for rank in ranks]
        except subprocess.TimeoutExpired:
            return "yes: it hangs"
        finally:
            for rank in ranks:
                rank.kill()
    return max(told)


def a_rank_of_gloo(name: str, store: str, rank: int) -> None:
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    print(noticed(globals()[name], lambda number: torch.device("cpu")), flush=True)
    os._exit(0)


def by_simgpu(program) -> str:
    simgpu.enable(count=2, memory=int(GPU_BYTES), compute=program is not does_not_fit)

    def gpu(number):
        return torch.device("simgpu", number)

    if program in ALONE:
        return noticed(program, gpu)
    try:
        return max(on_gpus(lambda rank: noticed(program, gpu), 2))
    except Exception as error:
        return _in_a_line(error)


# --- what a step costs --------------------------------------------------------------------------------------------


def step_of(device, mode=nullcontext):
    """A training step of the blocks of an MLP on a device."""
    with mode():
        with torch.device(device):
            blocks = [(nn.LayerNorm(256), nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(8)]
            model, x = nn.Sequential(*[layer for block in blocks for layer in block]), torch.randn(512, 256)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step():
        with mode():
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    return step


def least_milliseconds(step, repeats=9) -> float:
    step()
    found = []
    for _ in range(repeats):
        begin = time.process_time()
        step()
        found.append(time.process_time() - begin)
    return 1e3 * min(found)


def costs() -> None:
    """First without simulated GPUs in the process, which then has none of simgpu's changes to PyTorch."""
    torch.set_num_threads(1)
    fake = FakeTensorMode()
    # Where there is no CUDA, fake tensors on cuda have no backward pass, so these are fake tensors on the CPU.
    others = {"CPU": ("cpu", nullcontext), "meta": ("meta", nullcontext), "FakeTensorMode": ("cpu", lambda: fake)}
    print("a training step, CPU time:")
    for name, (device, mode) in others.items():
        print(f"  {name:<24} {least_milliseconds(step_of(device, mode)):8.1f} ms")
    for name, compute in (("simgpu", True), ("simgpu, shapes only", False)):
        simgpu.enable(count=1, gpu="H100", compute=compute)
        print(f"  {name:<24} {least_milliseconds(step_of('simgpu:0')):8.1f} ms")


def main() -> None:
    costs()
    ways = dict(zip(TOOLS, (by_meta, by_fake, by_gloo, by_simgpu), strict=True))
    print("noticed:")
    for program, told in TOLD.items():
        print(f"  {told}")
        for tool, by in ways.items():
            print(f"    {tool:<15} {by(program)}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        a_rank_of_gloo(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    else:
        main()
