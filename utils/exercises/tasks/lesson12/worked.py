import torch
import torch.distributed as dist
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


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        model.set_requires_gradient_sync(last or not reduce_once)
        model.set_reshard_after_backward(last or not keep_weights)
        loss = loss_fn(model(x), y) / len(micro_batches)
        loss.backward()
    optimizer.step()
