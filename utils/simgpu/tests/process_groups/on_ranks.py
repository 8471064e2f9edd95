"""What each rank runs for test_backend.py: every check by name, plain PyTorch, nothing of ours but the devices.

    cd utils/simgpu/tests/process_groups
    torchrun --standalone --nproc-per-node 2 on_ranks.py RESULTS
    python forked.py 2 on_ranks.py RESULTS

A check returns plain data. RESULTS/0.json and so on have what each check returned on each rank, or how it failed.
"""

import copy
import json
import os
import sys
import time
import traceback

import equal
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from checks import CHECKS, RANK, WORLD, check, device, farthest, numbers, perceptron, refused
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import _apply_optimizer_in_backward
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from torch.distributed.tensor import Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

import simgpu

# --- collectives --------------------------------------------------------------------------------------------------


@check
def collectives():
    """What each gives, for tensors that hold the rank's number."""

    def mine(count=2):
        return torch.full((count,), float(RANK + 1), device=device())

    told = {}
    for op in ("SUM", "AVG", "MAX", "PRODUCT"):
        tensor = mine()
        dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
        told[f"all_reduce {op}"] = tensor.tolist()
    tensor = mine()
    dist.broadcast(tensor, 1)
    told["broadcast"] = tensor.tolist()
    tensor = mine()
    dist.reduce(tensor, 0)
    told["reduce"] = tensor.tolist()
    parts = [torch.empty(2, device=device()) for _ in range(WORLD)]
    dist.all_gather(parts, mine())
    told["all_gather"] = [part.tolist() for part in parts]
    ones = [torch.empty(1, device=device()) for _ in range(WORLD)]
    dist.all_gather(ones, torch.tensor(float(RANK), device=device()))
    told["all_gather of numbers"] = [one.tolist() for one in ones]
    whole = torch.empty(2 * WORLD, device=device())
    dist.all_gather_into_tensor(whole, mine())
    told["all_gather_into_tensor"] = whole.tolist()
    share = torch.empty(2, device=device())
    dist.reduce_scatter_tensor(share, torch.arange(2.0 * WORLD, device=device()))
    told["reduce_scatter_tensor"] = share.tolist()
    dist.reduce_scatter(share, [mine() for _ in range(WORLD)])
    told["reduce_scatter"] = share.tolist()
    dist.gather(mine(), parts if RANK == 0 else None, 0)
    told["gather"] = [part.tolist() for part in parts] if RANK == 0 else "elsewhere"
    dist.scatter(share, [torch.full((2,), float(r), device=device()) for r in range(WORLD)] if RANK == 0 else None, 0)
    told["scatter"] = share.tolist()
    swapped = torch.empty(WORLD, device=device())
    dist.all_to_all_single(swapped, torch.arange(float(WORLD), device=device()) + 10 * RANK)
    told["all_to_all_single"] = swapped.tolist()
    dist.all_to_all(parts, [torch.full((2,), 10.0 * RANK + r, device=device()) for r in range(WORLD)])
    told["all_to_all"] = [part.tolist() for part in parts]
    unlike = [torch.empty(rank + 1, device=device()) for rank in range(WORLD)]
    dist.all_gather(unlike, mine(RANK + 1))
    told["all_gather of unlike sizes"] = [part.tolist() for part in unlike]
    share = torch.empty(RANK + 1, device=device())
    dist.reduce_scatter(share, [(rank + 1) * mine(rank + 1) for rank in range(WORLD)])
    told["reduce_scatter of unlike sizes"] = share.tolist()
    sizes = [(RANK + rank) % 3 for rank in range(WORLD)]  # of what two ranks give each other, which is the same
    swapped = torch.empty(sum(sizes), device=device())
    dist.all_to_all_single(swapped, mine(sum(sizes)), sizes, sizes)
    told["all_to_all_single of unlike sizes"] = swapped.tolist()
    told["sharded another way"] = []
    for shape in ((4, 2 * WORLD), (5, 3)):  # the rows are split, then the columns, evenly and not
        whole = numbers(*shape)
        rows = distribute_tensor(whole.to(device()), init_device_mesh("simgpu", (WORLD,)), [Shard(0)])
        told["sharded another way"].append(farthest([rows.redistribute(placements=[Shard(1)]).full_tensor()], [whole]))
    told["functional"] = functional.all_reduce(mine(), "sum", dist.group.WORLD).tolist()
    pair = dist.new_group([0, 1])
    tensor = mine()
    if RANK < 2:
        dist.all_reduce(tensor, group=pair)
    told["new_group"] = tensor.tolist()
    part, tensor = dist.split_group(split_ranks=[[1, 0], [2, 3]][: WORLD // 2]), mine()
    dist.all_reduce(tensor, group=part)
    told["split_group"] = [tensor.tolist(), dist.get_rank(part)]
    try:
        told["in no part"] = dist.get_world_size(dist.split_group(split_ranks=[[0, 1]]))
    except RuntimeError as error:
        told["in no part"] = str(error)
    dist.barrier()
    return told


def by_gloo(group, on):
    """What a group of gloo gives for tensors of this device that hold the rank's number."""

    def mine(*shape):
        return torch.full(shape or (2,), float(RANK + 1), device=on)

    told, parts, share = {}, [torch.empty(2, device=on) for _ in range(WORLD)], torch.empty(2, device=on)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.BAND):
        summed = mine(2, 3).t().to(torch.int64)
        dist.all_reduce(summed, op, group=group)
        told[f"all_reduce {op}"] = summed.tolist()
    later = mine()
    dist.all_reduce(later, group=group, async_op=True).wait()
    told["all_reduce, later"] = later.tolist()
    given = mine()
    dist.broadcast(given, WORLD - 1, group=group)
    told["broadcast"] = given.tolist()
    reduced = mine()
    dist.reduce(reduced, 0, group=group)
    told["reduce"] = reduced.tolist() if RANK == 0 else "elsewhere"
    dist.all_gather(parts, mine(), group=group)
    told["all_gather"] = [part.tolist() for part in parts]
    whole = torch.empty(2 * WORLD, device=on)
    dist.all_gather_into_tensor(whole, 2 * mine(), group=group)
    told["all_gather_into_tensor"] = whole.tolist()
    dist.gather(mine(), parts if RANK == 0 else None, 0, group=group)
    told["gather"] = [part.tolist() for part in parts] if RANK == 0 else "elsewhere"
    dist.scatter(share, [torch.full((2,), 1.0 + rank, device=on) for rank in range(WORLD)] if RANK == 0 else None, 0,
                 group=group)  # fmt: skip
    told["scatter"] = share.tolist()
    dist.reduce_scatter_tensor(share, torch.arange(2.0 * WORLD, device=on), group=group)
    told["reduce_scatter_tensor"] = share.tolist()
    swapped = torch.empty(WORLD, device=on)
    dist.all_to_all_single(swapped, torch.arange(float(WORLD), device=on) + 10 * RANK, group=group)
    told["all_to_all_single"] = swapped.tolist()
    dist.barrier(group)
    return told


@check
def gloo():
    """A group of gloo that is given tensors of GPUs: what it does with the CPU's, by copies; what it refuses."""
    group = dist.new_group(backend="gloo")
    begin = simgpu.now()
    told = {"as on the CPU": by_gloo(group, device()) == by_gloo(group, "cpu")}
    told["copies"] = sorted({record.kind for record in simgpu.log(begin)} & {"d2h", "h2d", "comm"})
    told["backend"] = dist.get_backend(group)
    part = dist.split_group(group, [list(reversed(range(WORLD)))])
    told["part"] = by_gloo(part, device()) == by_gloo(part, "cpu")
    told["object"] = [None] * WORLD
    dist.all_gather_object(told["object"], RANK, group=group)
    alone, x = perceptron(), numbers(8 * WORLD, 64)
    alone(x).square().mean().backward()
    model = DistributedDataParallel(perceptron().to(device()), process_group=group)
    model(x[8 * RANK : 8 * RANK + 8].to(device())).square().mean().backward()
    told["ddp"] = farthest([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
    other, one = (RANK + 1) % WORLD, torch.ones(1, device=device())
    told["refused"] = [
        refused(lambda: dist.send(one, other, group=group)),
        refused(lambda: dist.recv(one, other, group=group)),
        refused(lambda: dist.all_to_all([one] * WORLD, [one] * WORLD, group=group)),
    ]
    return told


@check
def equal_values():
    """What collectives give where all ranks hold the same."""
    return equal.same_values(device(), RANK, WORLD)


@check
def strided_and_other_dtypes():
    told = {}
    whole = torch.arange(6.0, device=device()).view(2, 3)
    dist.all_reduce(whole.t())
    told["transposed"] = whole.tolist()
    for dtype in (torch.bfloat16, torch.float16, torch.int64, torch.complex64, torch.bool):
        tensor = torch.ones(2, device=device()).to(dtype)
        dist.all_reduce(tensor, dist.ReduceOp.MAX if dtype == torch.bool else dist.ReduceOp.SUM)
        told[str(dtype)] = [value.real if dtype.is_complex else value for value in tensor.tolist()]
    return told


@check
def objects():
    got = [None] * WORLD
    dist.all_gather_object(got, {"rank": RANK})
    box = [{"from": RANK}]
    dist.broadcast_object_list(box, src=1)
    return [got, box]


@check
def messages():
    """A ring of messages, and one that is received late."""
    got = torch.zeros(3, device=device())
    ring = [
        dist.P2POp(dist.isend, torch.full((3,), float(RANK), device=device()), (RANK + 1) % WORLD),
        dist.P2POp(dist.irecv, got, (RANK - 1) % WORLD),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    told = got.tolist()
    itself, first, second = torch.full((2,), 7.0, device=device()), *torch.zeros(2, 2, device=device())
    both = [dist.P2POp(dist.irecv, each, RANK) for each in (first, second)]
    both += [dist.P2POp(dist.isend, each, RANK) for each in (itself, 2 * itself)]
    for work in dist.batch_isend_irecv(both):
        work.wait()
    to_itself = [first.tolist(), second.tolist()]
    if RANK == 0:
        dist.send(torch.ones(1_000_000, device=device()), 1)
    elif RANK == 1:
        weight = torch.randn(2000, 2000, device=device())
        for _ in range(3):
            weight = weight @ weight
        late = torch.empty(1_000_000, device=device())
        dist.recv(late, 0)
        told.append(late.sum().item())
    return {
        "got": told,
        "to itself": to_itself,
        "times": [[r.start, r.end] for r in simgpu.log() if r.name in ("send", "recv")][-1],
    }


@check
def let_go():
    """Messages whose works the program does not keep, each before one for which it waits."""
    got = torch.zeros(4, 3, device=device())
    for number, into in enumerate(got):
        works = [
            dist.isend(torch.full((3,), 10.0 * RANK + number, device=device()), (RANK + 1) % WORLD),
            dist.irecv(into, (RANK - 1) % WORLD),
        ]
        if number % 2:
            for work in works:
                work.wait()
    return got[:, 0].tolist()


# --- what trains --------------------------------------------------------------------------------------------------


@check
def asked():
    """Works that are asked whether they are completed, until they are, and synchronized in place of a wait."""

    def completed(work):
        return next((True for _ in range(10_000) if work.is_completed()), False)

    told, group = {}, dist.new_group(backend="gloo")
    summed, got, later = (torch.full((100_000,), float(RANK + 1), device=device()) for _ in range(3))
    work = dist.all_reduce(summed, async_op=True)
    told["before"] = work.is_completed()
    told["all_reduce"] = [completed(work), work.is_success(), work.result()[0] is summed, summed[0].item()]
    for name, into, wait in (("completed", got, completed), ("synchronized", later, lambda work: work.synchronize())):
        sent = dist.isend(torch.full_like(into, 10.0 + RANK), (RANK + 1) % WORLD)
        work = dist.irecv(into, (RANK - 1) % WORLD)
        told[name] = [wait(work), into[0].item()]
        sent.wait()
    by_gloo = dist.all_reduce(torch.ones(2), group=group, async_op=True)  # not one of ours
    by_gloo.wait()
    told["gloo"] = by_gloo.is_completed()
    told["gloo, of a GPU"] = completed(dist.all_reduce(torch.ones(2, device=device()), group=group, async_op=True))
    return told


@check
def ddp():
    """Three steps of DDP against one model with the whole batch, with each option."""
    x, y = numbers(8 * WORLD, 64), numbers(8 * WORLD, 8, seed=2)
    alone = perceptron()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(alone(x), y).backward()
        optimizer.step()
    told = {"batch norm": batch_norm(x)}
    options = {
        "plain": {"bucket_cap_mb": 0.1},
        "views": {"gradient_as_bucket_view": True},
        "static": {"static_graph": True},
        "unused": {"find_unused_parameters": True},
    }
    for name, given in options.items():
        model = DistributedDataParallel(perceptron().to(device()), device_ids=[RANK], **given)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            own = slice(8 * RANK, 8 * RANK + 8)
            nn.functional.mse_loss(model(x[own].to(device())), y[own].to(device())).backward()
            optimizer.step()
        told[name] = farthest(model.parameters(), alone.parameters())
    return told


@check
def futures():
    """Gradients of DDP whose hook waits within the backward pass, in three ways, and of a hook on a parameter."""
    x, y = numbers(8 * WORLD, 64), numbers(8 * WORLD, 8, seed=2)
    alone = perceptron()
    nn.functional.mse_loss(alone(x), y).backward()
    right = [parameter.grad for parameter in alone.parameters()]
    own = slice(8 * RANK, 8 * RANK + 8)

    def mean(bucket):
        bucket.buffer().div_(WORLD)
        return dist.all_reduce(bucket.buffer(), async_op=True)

    def waits(_, bucket):
        future = mean(bucket).get_future()
        done = torch.futures.Future()
        done.set_result(future.wait()[0])
        return done

    def waits_for_what_comes_then(_, bucket):
        future = mean(bucket).get_future().then(lambda one: one.value()[0])
        future.wait()
        return future

    def waits_for_the_work(_, bucket):
        work = mean(bucket)
        future = work.get_future()
        work.wait()
        return future.then(lambda one: one.value()[0])

    told = {}
    for hook in (waits, waits_for_what_comes_then, waits_for_the_work):
        model = DistributedDataParallel(perceptron().to(device()), device_ids=[RANK], bucket_cap_mb=0.1)
        model.register_comm_hook(None, hook)
        nn.functional.mse_loss(model(x[own].to(device())), y[own].to(device())).backward()
        told[hook.__name__] = farthest([parameter.grad for parameter in model.parameters()], right)

    model = perceptron().to(device())
    for parameter in model.parameters():

        def shared(gradient):
            work = dist.all_reduce(gradient.div_(WORLD), async_op=True)
            return work.get_future().wait()[0]

        parameter.register_hook(shared)
    nn.functional.mse_loss(model(x[own].to(device())), y[own].to(device())).backward()
    told["of a parameter"] = farthest([parameter.grad for parameter in model.parameters()], right)

    model = perceptron().to(device())
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.1})
    parallel = DistributedDataParallel(model, device_ids=[RANK], gradient_as_bucket_view=True)
    nn.functional.mse_loss(parallel(x[own].to(device())), y[own].to(device())).backward()
    torch.optim.SGD(alone.parameters(), lr=0.1).step()
    told["optimizer in backward"] = farthest(model.parameters(), alone.parameters())
    return told


def batch_norm(x):
    """Of SyncBatchNorm, outputs, gradients and statistics against those of the whole batch on one device."""
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(64, 6), nn.BatchNorm1d(6), nn.Tanh())
    synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(alone)).to(device())
    synced = DistributedDataParallel(synced)
    outputs = synced(x[8 * RANK : 8 * RANK + 8].to(device())), alone(x)
    outputs[0].square().mean().backward()
    outputs[1].square().mean().backward()
    statistics = [synced.module[1].running_mean, synced.module[1].running_var]
    own = outputs[1][8 * RANK : 8 * RANK + 8]
    return [
        farthest([outputs[0], *statistics], [own, alone[1].running_mean, alone[1].running_var]),
        farthest([p.grad for p in synced.parameters()], [p.grad for p in alone.parameters()]),
    ]


@check
def fsdp():
    """Gradients and weights of two steps of FSDP2 against one model with the whole batch."""
    x = numbers(8 * WORLD, 64)
    alone = perceptron()
    sharded = copy.deepcopy(alone).to(device())
    mesh = init_device_mesh("simgpu", (WORLD,))
    for layer in sharded:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (sharded, alone)]
    told = []
    for _ in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        sharded(x.chunk(WORLD)[RANK].to(device())).square().mean().backward()
        alone(x).square().mean().backward()
        gradients = [parameter.grad.full_tensor() for parameter in sharded.parameters()]
        told.append(farthest(gradients, [parameter.grad for parameter in alone.parameters()]))
        norms = [torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1) for model in (sharded, alone)]
        told.append(abs(norms[0].full_tensor().item() - norms[1].item()) / norms[1].item())
        for optimizer in optimizers:
            optimizer.step()
    told.append(farthest([parameter.full_tensor() for parameter in sharded.parameters()], alone.parameters()))
    return told


@check
def fsdp_from_cpu():
    """Gradients of FSDP2 when the model was still on the CPU, and where its parameters and buffers are then."""
    x = numbers(8 * WORLD, 64)
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(64, 16), nn.LayerNorm(16), nn.BatchNorm1d(16).eval(), nn.Linear(16, 4))
    sharded = copy.deepcopy(alone)
    mesh = init_device_mesh("simgpu", (WORLD,))
    fully_shard(sharded[0], mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    sharded(x.chunk(WORLD)[RANK].to(device())).square().mean().backward()
    alone(x).square().mean().backward()
    gradients = [parameter.grad.full_tensor() for parameter in sharded.parameters()]
    places = {str(tensor.device) for tensor in (*sharded.parameters(), *sharded.buffers())}
    return {
        "gradients": farthest(gradients, [parameter.grad for parameter in alone.parameters()]),
        "elsewhere": len(places - {str(device())}),
    }


@check
def tensor_parallel():
    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    split = parallelize_module(copy.deepcopy(alone).to(device()), init_device_mesh("simgpu", (WORLD,)), plan)
    x = numbers(8, 64)
    outputs = split(x.to(device())), alone(x)
    for output in outputs:
        output.square().mean().backward()
    gradients = [parameter.grad.full_tensor() for parameter in split.parameters()]
    return [farthest(outputs[:1], outputs[1:]), farthest(gradients, [p.grad for p in alone.parameters()])]


@check
def pipelines():
    """Gradients of PyTorch's schedules against the undivided model, and what each takes."""
    x, y = numbers(16, 64), numbers(16, 64, seed=2)
    told = {}
    kinds = (ScheduleGPipe, Schedule1F1B, ScheduleLoopedBFS, ScheduleInterleaved1F1B)
    for kind in (*kinds, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble):
        single = kind in (ScheduleGPipe, Schedule1F1B)
        count = WORLD if single else 2 * WORLD
        torch.manual_seed(0)
        parts = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(count)]
        alone = copy.deepcopy(parts)
        nn.functional.mse_loss(nn.Sequential(*alone)(x), y).backward()
        places = [RANK] if single else [RANK, 2 * WORLD - 1 - RANK if kind is ScheduleZBVZeroBubble else RANK + WORLD]
        stages = [PipelineStage(parts[place].to(device()), place, count, device()) for place in places]
        schedule = kind(stages[0] if single else stages, n_microbatches=2 * WORLD, loss_fn=nn.functional.mse_loss)
        given = [x.to(device())] if 0 in places else []
        target = {"target": y.to(device()), "losses": []} if count - 1 in places else {}
        dist.barrier()
        begin = simgpu.now()
        schedule.step(*given, **target)
        torch.simgpu.synchronize()
        dist.barrier()
        ours = [parameter.grad for place in places for parameter in parts[place].parameters()]
        theirs = [parameter.grad for place in places for parameter in alone[place].parameters()]
        told[kind.__name__] = [farthest(ours, theirs), simgpu.now() - begin]
    return told


@check
def overlap():
    """Seconds in which a DDP step communicates, and of these the seconds in which kernels run."""
    model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(6)]).to(device())
    x = numbers(2048, 512).to(device())
    parallel = DistributedDataParallel(model, bucket_cap_mb=1)
    for _ in range(2):  # DDP orders its buckets after the first step
        parallel(x).sum().backward()
    torch.simgpu.synchronize()
    begin = simgpu.now()
    parallel(x).sum().backward()
    records = simgpu.log(begin)
    work = [(r.start, r.end) for r in records if r.kind == "kernel"]
    talk = [(r.start, r.end) for r in records if r.kind == "comm"]
    both = sum(max(0, min(end, stop) - max(start, first)) for start, end in work for first, stop in talk)
    return {"communication": sum(end - start for start, end in talk), "hidden": both}


def main(folder):
    import sequences_and_experts  # noqa: F401  more checks
    import sharded  # noqa: F401

    simgpu.enable(count=WORLD, link="pcie3")
    torch.simgpu.set_device(RANK)
    meet = os.environ.get("RENDEZVOUS")  # none under torchrun, which gives an address
    dist.init_process_group(init_method=meet, **({"rank": RANK, "world_size": WORLD} if meet else {}))
    results = {"backend": str(dist.get_backend_config()), "took": {}}
    chosen = sys.argv[2:] or CHECKS.keys() - {"checkpoint_saved"}
    for name, function in CHECKS.items():
        if name not in chosen:
            continue
        begin, started = simgpu.now(), time.perf_counter()
        try:
            results[name] = function()
        except Exception:
            results[name] = traceback.format_exc()
            break  # the others wait for us
        torch.simgpu.synchronize()
        results["took"][name] = {"virtual": simgpu.now() - begin, "wall": time.perf_counter() - started}
    results["now"] = simgpu.now()
    with open(os.path.join(folder, f"{RANK}.json"), "w") as file:
        json.dump(results, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
