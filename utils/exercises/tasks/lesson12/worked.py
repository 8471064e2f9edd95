import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.utils import vector_to_parameters


def sharded_step(model, shard, optimizer):
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    shard.grad = torch.empty_like(shard)
    dist.reduce_scatter_tensor(shard.grad, gradients, op=dist.ReduceOp.AVG)
    optimizer.step()
    optimizer.zero_grad()
    weights = torch.empty_like(gradients)
    dist.all_gather_into_tensor(weights, shard.detach())
    vector_to_parameters(weights, model.parameters())


def sharded_model(make, gpu):
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    with torch.device("meta"):
        model = make()
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    for layer in layers:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=gpu)
    for layer in layers:
        layer.reset_parameters()
    return model


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        model.set_requires_gradient_sync(number == len(micro_batches) - 1)
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
