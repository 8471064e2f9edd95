"""One process that stands for many ranks which all do the same: what it computes, told as JSON."""

import copy
import json

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import simgpu

RANKS = 4


def gradients(model):
    return [getattr(p.grad, "full_tensor", lambda p=p: p.grad)().cpu() for p in model.parameters()]


def farthest(ours, theirs):
    largest = max(other.abs().max().item() for other in theirs)
    return max((mine - other).abs().max().item() for mine, other in zip(ours, theirs, strict=True)) / largest


def refusal_in_a_graph(call):
    try:
        with torch.simgpu.graph(torch.simgpu.CUDAGraph()):
            call()
    except RuntimeError as error:
        return str(error)


def main():
    simgpu.enable(count=1, nodes=2, network="100G")
    dist.init_process_group("simccl", store=FakeStore(), rank=0, world_size=RANKS)
    told = {}
    x = torch.full((2,), 3.0, device="simgpu:0")
    begin = simgpu.now()
    dist.all_reduce(x)
    torch.simgpu.synchronize()
    told["over two nodes"] = simgpu.now() - begin
    told["all_reduce"] = x.tolist()
    parts = [torch.empty(2, device="simgpu:0") for _ in range(RANKS)]
    dist.all_gather(parts, x)
    told["all_gather"] = [part.tolist() for part in parts]
    large = torch.empty(10**6, device="simgpu:0")
    funcol.all_gather_tensor(large, 0, dist.group.WORLD).view(-1, 1) + 1  # as DTensor does: it waits for the view
    gathering, adding = simgpu.log()[-2:]
    told["what is gathered is waited for"] = (gathering.name, adding.name, adding.start >= gathering.end)
    share = torch.empty(1, device="simgpu:0")
    dist.reduce_scatter_tensor(share, torch.arange(4.0, device="simgpu:0"))
    told["reduce_scatter"] = share.tolist()
    told["in a graph"] = [refusal_in_a_graph(call) for call in (lambda: dist.all_reduce(x), dist.barrier)]

    torch.manual_seed(0)
    alone = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    batch = torch.randn(6, 8)
    alone(batch).square().mean().backward()
    expected = [parameter.grad for parameter in alone.parameters()]
    model = copy.deepcopy(alone).to("simgpu:0")
    model.zero_grad()
    parallel = DistributedDataParallel(model)
    parallel(batch.to("simgpu:0")).square().mean().backward()
    told["ddp"] = farthest(gradients(parallel), expected)

    model = copy.deepcopy(alone).to("simgpu:0")
    model.zero_grad()
    sharded = fully_shard(model, mesh=init_device_mesh("simgpu", (RANKS,)))
    before = [parameter.to_local().numel() for parameter in sharded.parameters()]
    told["a share of each weight"] = [
        parameter.numel() / own for parameter, own in zip(alone.parameters(), before, strict=True)
    ]
    sharded.to("simgpu:0")
    begin = simgpu.now()
    sharded(batch.to("simgpu:0")).square().mean().backward()
    copies = ("_foreach_copy_", "split_with_sizes_copy", "chunk_cat_mixed_dtype", "chunk_cat")
    told["copies"] = [record.bytes for record in simgpu.log(begin) if record.name in copies]
    told["numbers"] = sum(parameter.numel() for parameter in alone.parameters())
    told["steps"] = all(parameter.grad is not None for parameter in sharded.parameters())
    print(json.dumps(told))


if __name__ == "__main__":
    main()
