"""Ranks as threads, each with a simulated GPU of its own: they are held against ranks that are processes."""

from collections import Counter
from contextlib import nullcontext

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import simgpu
from simgpu import faults, torch_private
from simgpu.threads import on_gpus
from simgpu.torch_private import sharding
from simgpu.waiting import Mismatch, RanksMissing
from utils.ranks import ranks

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]
MACHINE = {"gpu": "H100", "link": "nvlink4", "nodes": 2, "network": "25G"}


def gpu_of_this_rank():
    return torch.device("simgpu", dist.get_rank())


def trained(_=0):
    """Two steps of HSDP: losses, this rank's gradient, the time, and the peak of its GPU."""
    gpu = gpu_of_this_rank()
    mesh = init_device_mesh("simgpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(3)])
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device=gpu)
    with torch.no_grad():
        for number, p in enumerate(model.parameters()):
            local = p.to_local()
            local.copy_(torch.linspace(-1, 1, local.numel()).view_as(local) * (number + 1) / 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, foreach=False)
    losses = []
    for step in range(2):
        optimizer.zero_grad()
        x = torch.linspace(-1, 1, 32, device=gpu).view(4, 8) * (dist.get_rank() + step + 1)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    gradient = model[0].weight.grad.full_tensor().flatten().tolist()
    return losses, gradient, simgpu.now(), torch.get_device_module(gpu).max_memory_allocated(gpu)


def exchanged(_=0):
    """All kinds of collectives, and messages: what each has brought, and the time after each."""
    rank, count, gpu = dist.get_rank(), dist.get_world_size(), gpu_of_this_rank()
    own, found = torch.arange(8.0, device=gpu) + 100 * rank, []

    def note(tensor):
        found.append((tensor.tolist(), simgpu.now()))

    total = own.clone()
    dist.all_reduce(total, dist.ReduceOp.AVG)
    note(total)
    swapped = torch.empty(8, device=gpu)
    dist.all_to_all_single(swapped, own)
    note(swapped)
    whole = torch.empty(8 * count, device=gpu)
    dist.all_gather_into_tensor(whole, own)
    note(whole)
    part = torch.empty(2, device=gpu)
    dist.reduce_scatter_tensor(part, own)
    note(part)
    given = own.clone()
    dist.broadcast(given, 2)
    note(given)
    came, other = torch.empty(8, device=gpu), rank ^ 2
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, own, other), dist.P2POp(dist.irecv, came, other)])
    for work in works:
        work.wait()
    note(came)
    pair = dist.new_group([0, 3])
    if rank in (0, 3):
        dist.all_reduce(own, group=pair)
    note(own)
    dist.barrier()
    objects = [None] * count
    dist.all_gather_object(objects, {"rank": rank})
    return found, objects, simgpu.now()


@pytest.mark.parametrize("run", [trained, exchanged], ids=["hsdp", "all that ranks exchange"])
def test_numbers_times_and_memory_are_those_of_processes(run):
    simgpu.enable(count=4, **MACHINE)
    assert on_gpus(run, 4) == ranks(4, **MACHINE).run(run)


def test_shapes_alone_take_the_same_time():
    simgpu.enable(count=4, compute=False, **MACHINE)
    assert on_gpus(trained_shapes, 4) == ranks(4, compute=False, **MACHINE).run(trained_shapes)


def trained_shapes(_=0):
    gpu = gpu_of_this_rank()
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(4)])
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    for _ in range(2):
        model(torch.empty(512, 4096, device=gpu)).sum().backward()
    return simgpu.now(), torch.get_device_module(gpu).max_memory_allocated(gpu)


def trained_in_each_node(rank):
    """Steps by lists of parameters, of shards that are not even: weights, this rank's shares, and their meshes."""
    gpu, found = gpu_of_this_rank(), []
    whole = init_device_mesh("simgpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for mesh, how in ((whole, {"fused": True}), (whole["shard"], {"foreach": True})):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(5, 7), nn.Linear(7, 3)).to(gpu)
        fully_shard(model, mesh=mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **how)
        for step in range(2):
            optimizer.zero_grad()
            model(torch.full((2, 5), rank + step + 1.0, device=gpu)).square().mean().backward()
            optimizer.step()
        for p in model.parameters():
            moment = optimizer.state[p]["exp_avg"]
            assert moment.device_mesh is p.device_mesh, "and not that of the rank which came first"
            found.append((p.full_tensor().tolist(), moment.to_local().tolist(), mesh.get_coordinate()))
    return found, simgpu.now()


def test_how_an_optimizers_operators_are_sharded_is_worked_out_once_and_changes_nothing(monkeypatch):
    asked = Counter()
    work_out = sharding._sharding_prop.ShardingPropagator.propagate_op_sharding_non_cached

    def counted(self, schema):
        asked[schema.op.name()] += 1
        return work_out(self, schema)

    monkeypatch.setattr(sharding._sharding_prop.ShardingPropagator, "propagate_op_sharding_non_cached", counted)

    def run():
        asked.clear()
        simgpu.enable(count=1, gpu="T4")
        simgpu.enable(count=4, **MACHINE)
        return on_gpus(trained_in_each_node, 4), Counter(asked)

    shared, once = run()
    monkeypatch.setattr("simgpu.threads.ranks_share_propagation", nullcontext)
    own, by_each = run()
    assert shared == own
    for name in ("aten::_fused_adamw_", "aten::_foreach_lerp_.Scalar"):
        assert (once[name], by_each[name]) == (1, 4), name


def test_a_second_run_goes_on_where_the_first_has_ended():
    simgpu.enable(count=2, gpu="T4", compute=False)
    first = on_gpus(trained_shapes, 2)
    assert simgpu.now() == max(time for time, _ in first)
    assert on_gpus(trained_shapes, 2)[0][0] > first[0][0]


def test_who_waits_for_whom_is_said_where_no_rank_can_go_on():
    def main(rank):
        tensor = torch.zeros(3, device=gpu_of_this_rank())
        if rank == 1:
            dist.send(tensor, 0)
        elif rank == 2:
            dist.all_reduce(tensor)

    simgpu.enable(count=3, gpu="T4")
    told = r"rank 1 waited in send.*: rank 2 waits in all_reduce.*; rank 0 has ended"
    with pytest.raises(RanksMissing, match=told):
        on_gpus(main, 3)


def test_unlike_calls_and_errors_end_all_ranks():
    def unlike(rank):
        tensor = torch.zeros(3, device=gpu_of_this_rank())
        dist.all_reduce(tensor) if rank else dist.broadcast(tensor, 0)

    def fails(rank):
        if rank == 1:
            raise KeyError("rank 1's own")
        dist.barrier()

    simgpu.enable(count=2, gpu="T4")
    with pytest.raises(Mismatch, match=r"rank 0: broadcast.*; rank 1: all_reduce"):
        on_gpus(unlike, 2)
    with pytest.raises(KeyError) as caught:
        on_gpus(fails, 2)
    assert caught.value.__notes__ == ["This is rank 1's."]
    assert not dist.is_initialized()


def test_a_rank_cannot_be_killed_without_the_others():
    simgpu.enable(count=2, gpu="T4", faults=(faults.KilledRank(1, 1),))
    with pytest.raises(ValueError, match="ranks are threads of one process"):
        on_gpus(lambda rank: None, 2)
