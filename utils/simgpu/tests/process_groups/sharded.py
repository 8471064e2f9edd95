"""Checks with sharded models: options of FSDP2 and DDP, meshes of two dimensions, checkpoints on other ranks."""

import copy
import gc
import os

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from checks import RANK, WORLD, check, device, farthest, numbers, perceptron, refused
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision


def own(tensor):
    return tensor.chunk(WORLD)[RANK].to(device())


def low_gradients(x):
    """Means over all ranks of the gradients of their parts of a batch, each computed alone in bfloat16.

    In bfloat16 a sum of parts is not the whole's to rounding.
    """
    sums = [torch.zeros_like(parameter) for parameter in perceptron().parameters()]
    for part in x.chunk(WORLD):
        low = perceptron().bfloat16()
        low(part.bfloat16()).float().square().mean().backward()
        for total, parameter in zip(sums, low.parameters(), strict=True):
            total += parameter.grad.float() / WORLD
    return sums


@check
def ddp_options():
    """Accumulated gradients (`no_sync`), a communication hook, and a buffer that rank 0 gives to all."""
    x = numbers(8 * WORLD, 64)
    told = {}
    alone = perceptron()
    (alone(x).square().mean() + alone(2 * x).square().mean()).backward()
    model = DistributedDataParallel(perceptron().to(device()), device_ids=[RANK])
    with model.no_sync():
        model(own(x)).square().mean().backward()
    before = model.module[0].weight.grad.clone()
    model(own(2 * x)).square().mean().backward()
    told["no_sync"] = farthest([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
    parts = [torch.empty_like(before) for _ in range(WORLD)]
    dist.all_gather(parts, before)
    told["gradients differed before"] = not torch.equal(parts[0], parts[1])

    def halved(_, bucket):
        work = dist.all_reduce(bucket.buffer().div_(2 * WORLD), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    alone = perceptron()
    alone(x).square().mean().backward()
    model = DistributedDataParallel(perceptron().to(device()), device_ids=[RANK])
    model.register_comm_hook(None, halved)
    model(own(x)).square().mean().backward()
    told["hook"] = farthest([2 * p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])

    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.register_buffer("seen", torch.tensor(float(RANK)))

        def forward(self, x):
            return self.layer(x) + self.seen

    model = DistributedDataParallel(Counts().to(device()))
    model(torch.ones(2, 4, device=device()))
    told["buffer"] = model.module.seen.item()
    return told


@check
def joined():
    """DDP where each rank has one batch more than the one before: with what `join` divides by, and the ranks there."""
    x = numbers(WORLD * WORLD, 4, 64)
    told = []
    for divided_by_all in (True, False):
        alone = perceptron()
        model = DistributedDataParallel(perceptron().to(device()), device_ids=[RANK])
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (model, alone)]
        with model.join(divide_by_initial_world_size=divided_by_all):
            for step in range(RANK + 1):
                optimizers[0].zero_grad()
                model(x[RANK * WORLD + step].to(device())).square().mean().backward()
                optimizers[0].step()
        for step in range(WORLD):
            optimizers[1].zero_grad()
            for rank in range(step, WORLD):
                ranks = WORLD if divided_by_all else WORLD - step
                (alone(x[rank * WORLD + step]).square().mean() / ranks).backward()
            optimizers[1].step()
        told.append(farthest(model.parameters(), alone.parameters()))
    return told


@check
def ddp_mixed():
    """DDP in its own mixed precision, whose gradients are those of the parts with the same casts.

    From its second step on: in the first PyTorch 2.15.0 reduces a buffer that nothing was written to, with gloo, too.
    """
    policy = _MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = perceptron().to(device())
    model = DistributedDataParallel(model, device_ids=[RANK], mixed_precision=policy)
    x = numbers(8 * WORLD, 64)
    for _ in range(2):
        model.zero_grad()
        model(own(x)).float().square().mean().backward()
    return farthest([parameter.grad for parameter in model.parameters()], low_gradients(x))


@check
def fsdp_options():
    """FSDP2 with Adam, accumulated gradients, weights that stay gathered, and mixed precision."""
    x = numbers(8 * WORLD, 64)
    mesh = init_device_mesh("simgpu", (WORLD,))
    told = {}
    for name, given in {"resharded": {}, "kept": {"reshard_after_forward": False}}.items():
        alone = perceptron().double()  # Adam divides by small numbers, which makes rounding large
        sharded = fully_shard(copy.deepcopy(alone).to(device()), mesh=mesh, **given)
        optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (sharded, alone)]
        for _ in range(2):
            for last, part in enumerate((x.double(), 2 * x.double())):
                sharded.set_requires_gradient_sync(bool(last))
                sharded(own(part)).square().mean().backward()
                alone(part).square().mean().backward()
            gradients = [parameter.grad.full_tensor() for parameter in sharded.parameters()]
            told[f"{name}: gradients"] = farthest(gradients, [p.grad for p in alone.parameters()])
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    sharded = fully_shard(perceptron().to(device()), mesh=mesh, mp_policy=policy)
    output = sharded(own(x))
    output.float().square().mean().backward()
    told["mixed precision"] = farthest([p.grad.full_tensor() for p in sharded.parameters()], low_gradients(x))
    told["output"] = str(output.dtype)
    return told


@check
def fsdp1():
    """FullyShardedDataParallel: two steps of Adam against the whole batch; bfloat16, memory, a refusal."""
    x = numbers(8 * WORLD, 64)
    each = ModuleWrapPolicy({nn.Linear})
    told = {}
    for name, given in {
        "full": {"auto_wrap_policy": each},
        "flat": {"use_orig_params": True},
        "gradients": {"auto_wrap_policy": each, "sharding_strategy": ShardingStrategy.SHARD_GRAD_OP},
        "not": {"sharding_strategy": ShardingStrategy.NO_SHARD},
        "from the CPU": {"auto_wrap_policy": each, "device_id": device()},
    }.items():
        alone = perceptron().double()
        model = copy.deepcopy(alone)
        model = FullyShardedDataParallel(model if "device_id" in given else model.to(device()), **given)
        optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (model, alone)]
        for _ in range(2):
            with model.no_sync():
                model(own(x.double())).square().mean().backward()
            model(own(2 * x.double())).square().mean().backward()
            (alone(x.double()).square().mean() + alone(2 * x.double()).square().mean()).backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        told[name] = farthest(model.state_dict().values(), alone.parameters())
        with FullyShardedDataParallel.summon_full_params(model):
            told[f"{name}, summoned"] = farthest(model.parameters(), alone.parameters())
    policy = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    gc.collect()  # the models above are in cycles
    before = torch.simgpu.memory_allocated()
    given = {"auto_wrap_policy": each, "mixed_precision": policy, "use_orig_params": True}
    model = FullyShardedDataParallel(perceptron().to(device()), **given)
    told["bytes of a weight"] = (torch.simgpu.memory_allocated() - before) / sum(
        parameter.numel() for parameter in perceptron().parameters()
    )
    model(own(x)).float().square().mean().backward()
    with FullyShardedDataParallel.summon_full_params(model, with_grads=True):
        told["bfloat16"] = farthest([parameter.grad for parameter in model.parameters()], low_gradients(x))
    alone = perceptron()
    alone(x).square().mean().backward()
    model = FullyShardedDataParallel(perceptron().to(device()), auto_wrap_policy=each)
    model(own(x)).square().mean().backward()
    norms = [model.clip_grad_norm_(0.1), torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1)]
    told["norm"] = abs(norms[0].item() - norms[1].item()) / norms[1].item()
    for flat in (False, True):
        model = FullyShardedDataParallel(perceptron().to(device()), auto_wrap_policy=each, use_orig_params=flat)
        for everybody in (False, True):
            config = FullStateDictConfig(offload_to_cpu=True, rank0_only=not everybody)
            with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
                saved = model.state_dict()
            assert {weight.device.type for weight in saved.values()} <= {"cpu"}
            assert len(saved) == (len(perceptron().state_dict()) if everybody or RANK == 0 else 0)
            if saved:
                told[f"saved {flat} {everybody}"] = farthest(saved.values(), perceptron().parameters())
        model(own(x)).square().mean().backward()  # the weights are where they were
    told["refused"] = [
        refused(lambda: FullyShardedDataParallel(perceptron().to(device()), cpu_offload=CPUOffload(True))),
        refused(lambda: FullyShardedDataParallel.summon_full_params(model, offload_to_cpu=True).__enter__()),
    ]
    return told


class Block(nn.Module):
    """Attention and a perceptron, each after a normalisation, as Transformers have them."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        normal = self.norm1(x)
        q, k, v = (
            layer(normal).unflatten(-1, (-1, self.out.weight.shape[0] // self.heads)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


# As torchtitan splits it: layers over the ranks, and between them each rank has a part of the sequence.
PLAN = {
    **dict.fromkeys(("norm1", "norm2"), SequenceParallel()),
    **dict.fromkeys(("q", "k", "v", "up"), ColwiseParallel(input_layouts=Shard(1))),
    **dict.fromkeys(("out", "down"), RowwiseParallel(output_layouts=Shard(1))),
}


def block(batch_mesh, split_mesh):
    """Output, gradients and their norm, as shares of the same on one device with the whole batch."""
    torch.manual_seed(0)
    alone = Block()
    split = parallelize_module(copy.deepcopy(alone).to(device()), split_mesh, PLAN)
    rows = 1
    if batch_mesh is not None:
        fully_shard(split, mesh=batch_mesh)
        rows = batch_mesh.size()
    x = numbers(2 * rows, 8, 32)
    part = x if batch_mesh is None else x.chunk(rows)[batch_mesh.get_local_rank()]
    place = split_mesh.get_local_rank()
    output = split(part.chunk(split_mesh.size(), dim=1)[place].to(device()))
    (output.square().sum() / part.numel()).backward()
    expected = alone(x)
    expected.square().mean().backward()
    theirs = expected if batch_mesh is None else expected.chunk(rows)[batch_mesh.get_local_rank()]
    gradients = [parameter.grad.full_tensor() for parameter in split.parameters()]
    return [
        farthest([output], [theirs.chunk(split_mesh.size(), dim=1)[place]]),
        farthest(gradients, [parameter.grad for parameter in alone.parameters()]),
        farthest(
            [torch.nn.utils.clip_grad_norm_(split.parameters(), 0.1).full_tensor()],
            [torch.nn.utils.clip_grad_norm_(alone.parameters(), 0.1)],
        ),
    ]


@check
def sequence_parallel():
    return block(None, init_device_mesh("simgpu", (WORLD,)))


@check
def two_dimensions():
    """FSDP2 over the rows of a mesh, tensor parallel over its columns."""
    mesh = init_device_mesh("simgpu", (WORLD // 2, 2), mesh_dim_names=("data", "tensor"))
    return block(mesh["data"], mesh["tensor"])


def _trained():
    """A batch, a sharded model and the same one on one device, and an optimizer of each; nothing has been trained."""
    x = numbers(8, 64)
    alone = perceptron()
    sharded = fully_shard(copy.deepcopy(alone).to(device()), mesh=init_device_mesh("simgpu", (WORLD,)))
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (sharded, alone)]
    return x, (sharded, alone), optimizers


def _step(x, models, optimizers):
    for model, optimizer in zip(models, optimizers, strict=True):
        optimizer.zero_grad()
        model(x.to(next(model.parameters()).device)).square().mean().backward()
        optimizer.step()


@check
def checkpoint_saved():
    """After one step a checkpoint is saved where CHECKPOINT says, by all ranks."""
    x, models, optimizers = _trained()
    _step(x, models, optimizers)
    weights, state = get_state_dict(models[0], optimizers[0])
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=os.environ["CHECKPOINT"])
    return len(os.listdir(os.environ["CHECKPOINT"]))


@check
def checkpoint_loaded():
    """Another number of ranks loads it, and the second step is that of a model which was never away."""
    x, (sharded, alone), (optimizer, theirs) = _trained()
    weights, state = get_state_dict(sharded, optimizer)
    dcp.load({"model": weights, "optimizer": state}, checkpoint_id=os.environ["CHECKPOINT"])
    set_state_dict(sharded, optimizer, model_state_dict=weights, optim_state_dict=state)
    _step(x, [alone], [theirs])
    loaded = farthest([parameter.full_tensor() for parameter in sharded.parameters()], alone.parameters())
    _step(x, (sharded, alone), (optimizer, theirs))
    return [loaded, farthest([parameter.full_tensor() for parameter in sharded.parameters()], alone.parameters())]
