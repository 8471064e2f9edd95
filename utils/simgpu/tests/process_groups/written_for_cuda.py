"""A script for CUDA and NCCL that never heard of simulated GPUs: DDP with what people use beside it.

torchrun --nproc-per-node 2 written_for_cuda.py FOLDER_FOR_A_CHECKPOINT
"""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))


def own(weight):
    """Of a sharded weight the part that this rank has."""
    return weight.to_local() if isinstance(weight, DTensor) else weight


def main():
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(64, 20), torch.randn(64, 5))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), pin_memory=True)
    model = DDP(network().to(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda")
    losses = []
    for epoch in range(2):
        loader.sampler.set_epoch(epoch)
        total = torch.zeros((), device="cuda")
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            total += loss.detach()
        dist.all_reduce(total, op=dist.ReduceOp.AVG)
        losses.append(total.item())

    shared = torch.ones(3, device="cuda")
    with dist.distributed_c10d._coalescing_manager(device=torch.device(local_rank), async_ops=True) as together:
        dist.all_reduce(shared)
    together.wait()
    dist.all_reduce(shared)
    same_sums = shared.tolist() == [dist.get_world_size() ** 2] * 3

    sharded = network()  # on the CPU: fully_shard moves it
    mesh = init_device_mesh("cuda", (1, dist.get_world_size()), mesh_dim_names=("copies", "shards"))
    fully_shard(sharded, mesh=mesh)
    out = sharded(torch.ones(4, 20, device=f"cuda:{local_rank}"))
    older = FullyShardedDataParallel(network(), device_id=local_rank)
    outs = out, older(torch.ones(4, 20, device="cuda"))
    same = same_sums and all(torch.allclose(out.cpu(), network()(torch.ones(4, 20)), atol=1e-6) for out in outs)

    weights = {"shards": sharded.state_dict(), "whole": model.module.state_dict()}
    before = [own(weight).clone() for each in weights.values() for weight in each.values()]
    dcp.save(weights, checkpoint_id=sys.argv[1])
    with torch.no_grad():
        for parameter in (*sharded.parameters(), *model.parameters()):
            parameter.zero_()
    dcp.load(weights, checkpoint_id=sys.argv[1])
    after = [own(weight) for each in weights.values() for weight in each.values()]
    loaded = all(map(torch.equal, before, after))
    told = {
        "losses": losses,
        "device": str(total.device),
        "is_cuda": total.is_cuda,
        "name": torch.cuda.get_device_name(),
        "backend": dist.get_backend(),
        "fsdp": same,
        "checkpoint": loaded,
        "course": sorted(name for name in sys.modules if name.partition(".")[0] == "utils"),
    }
    dist.destroy_process_group()
    if local_rank == 0:
        print(json.dumps(told))


if __name__ == "__main__":
    main()
