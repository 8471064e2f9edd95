"""A replayed step on ranks: its collectives meet those of the other ranks, whether those replay or not."""

import warnings
from typing import NamedTuple

import pytest
import torch
import torch.distributed as dist
from torch import nn

import simgpu
from simgpu import torch_private
from simgpu.threads import on_gpus

pytestmark = [
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]
RANKS, CALLS = 2, 7


class OnRanks(NamedTuple):
    """Of each rank times and bytes after each call, and how often it has replayed; records by GPU; collectives."""

    calls: list
    records: list
    collectives: list
    replays: list
    why: list


def layers(gpu):
    return nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))).to(gpu)


def ddp(gpu):
    model = nn.parallel.DistributedDataParallel(layers(gpu), device_ids=[gpu.index], bucket_cap_mb=0.02)
    return model, lambda: None


def fsdp(gpu):
    from torch.distributed.fsdp import fully_shard

    model = layers(gpu)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    return model, lambda: None


def by_hand(gpu):
    """Gradients are added up by collectives that run while others are launched."""
    model = layers(gpu)

    def add_up():
        works = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
        for work in works:
            work.wait()

    return model, add_up


def run(make, wrap, more=lambda gpu: None) -> OnRanks:
    simgpu.enable(count=1)
    simgpu.enable(count=RANKS, nodes=2, compute=False)

    def main(rank):
        gpus, gpu, seen = torch.simgpu, torch.device("simgpu", rank), []
        model, add_up = make(gpu)
        optimizer = torch.optim.AdamW(model.parameters())

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            add_up()
            optimizer.step()
            more(gpu)
            return loss.detach()

        step = wrap(step, rank)
        for _ in range(CALLS):
            gpus.reset_peak_memory_stats(rank)
            step(torch.empty(8 << rank, 64, device=gpu))
            seen.append((simgpu.now(), gpus.memory_stats(rank)))
        gpus.synchronize(rank)
        return [*seen, simgpu.now()], getattr(step, "replays", 0), getattr(step, "why", "")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen, replays, why = zip(*on_gpus(main, RANKS), strict=True)
    records = [[record for record in simgpu.log() if record.device == rank] for rank in range(RANKS)]
    keys = "pg_id", "profiling_name", "collective_seq_id", "state", "time_created_ns", "duration_ms", "input_sizes"
    collectives = [tuple(entry[key] for key in keys) for entry in simgpu.flight_recorder()["entries"]]
    return OnRanks([*seen], records, sorted(collectives, key=repr), [*replays], [*why])


@pytest.mark.parametrize("make", [by_hand, ddp, fsdp])
def test_collectives_are_those_of_the_operators(make):
    by_operators = run(make, lambda step, rank: step)
    replayed = run(make, lambda step, rank: simgpu.replayed(step))
    assert min(replayed.replays) >= CALLS - 4
    assert replayed[:3] == by_operators[:3]
    assert sum(record.kind == "comm" for record in replayed.records[0]) > CALLS


def test_a_rank_that_replays_meets_one_that_does_not():
    by_operators = run(by_hand, lambda step, rank: step)
    replayed = run(by_hand, lambda step, rank: simgpu.replayed(step) if rank == 1 else step)
    assert replayed.replays == [0, CALLS - 3]
    assert replayed[:3] == by_operators[:3]


def message(gpu):
    x = torch.empty(4, device=gpu)
    (dist.send if gpu.index == 0 else dist.recv)(x, 1 - gpu.index)


@pytest.mark.parametrize("more", [message, lambda gpu: dist.barrier()], ids=["message", "barrier"])
def test_messages_and_barriers_are_not_replayed(more):
    replayed = run(by_hand, lambda step, rank: simgpu.replayed(step), more)
    assert replayed.replays == [0, 0]
    assert all("it calls send, recv, barrier" in why for why in replayed.why)
    assert replayed[:3] == run(by_hand, lambda step, rank: step, more)[:3]
