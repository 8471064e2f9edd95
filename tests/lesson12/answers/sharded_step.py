# %% wrong: sum_for_mean
# A reduce-scatter sums unless it is told otherwise.


def sharded_step(model, shard, optimizer):
    import torch
    import torch.distributed as dist
    from torch.nn.utils import vector_to_parameters

    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    shard.grad = torch.empty_like(shard)
    dist.reduce_scatter_tensor(shard.grad, gradients)
    optimizer.step()
    optimizer.zero_grad()
    weights = torch.empty_like(gradients)
    dist.all_gather_into_tensor(weights, shard.detach())
    vector_to_parameters(weights, model.parameters())


# %% wrong: own_gradient_only
# Takes its shard of its own gradient: nothing is reduced.


def sharded_step(model, shard, optimizer):
    import torch
    import torch.distributed as dist
    from torch.nn.utils import vector_to_parameters

    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    shard.grad = gradients.chunk(dist.get_world_size())[dist.get_rank()].clone()
    optimizer.step()
    optimizer.zero_grad()
    weights = torch.empty_like(gradients)
    dist.all_gather_into_tensor(weights, shard.detach())
    vector_to_parameters(weights, model.parameters())


# %% wrong: no_all_gather
# Writes its own shard into the model, and forgets that the other ranks' shards are new as well.


def sharded_step(model, shard, optimizer):
    import torch
    import torch.distributed as dist
    from torch.nn.utils import parameters_to_vector, vector_to_parameters

    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    shard.grad = torch.empty_like(shard)
    dist.reduce_scatter_tensor(shard.grad, gradients, op=dist.ReduceOp.AVG)
    optimizer.step()
    optimizer.zero_grad()
    weights = parameters_to_vector(model.parameters()).detach()
    weights.chunk(dist.get_world_size())[dist.get_rank()].copy_(shard.detach())
    vector_to_parameters(weights, model.parameters())


# %% wrong: model_not_written
# Steps on the shard, and leaves the model as it was.


def sharded_step(model, shard, optimizer):
    import torch
    import torch.distributed as dist

    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    shard.grad = torch.empty_like(shard)
    dist.reduce_scatter_tensor(shard.grad, gradients, op=dist.ReduceOp.AVG)
    optimizer.step()
    optimizer.zero_grad()


# %% wrong: all_reduce_then_a_slice
# Every rank gets the whole mean, and uses its shard.


def sharded_step(model, shard, optimizer):
    import torch
    import torch.distributed as dist
    from torch.nn.utils import vector_to_parameters

    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(gradients, op=dist.ReduceOp.AVG)
    shard.grad = gradients.chunk(dist.get_world_size())[dist.get_rank()].clone()
    optimizer.step()
    optimizer.zero_grad()
    weights = torch.empty_like(gradients)
    dist.all_gather_into_tensor(weights, shard.detach())
    vector_to_parameters(weights, model.parameters())


# %% right: lists_of_chunks
# The older calls, which take lists, and copies into the parameters in place.


def sharded_step(model, shard, optimizer):
    import torch
    import torch.distributed as dist

    count = dist.get_world_size()
    weights = list(model.parameters())
    mine = torch.zeros_like(shard.data)
    chunks = [chunk.contiguous() for chunk in torch.cat([p.grad.view(-1) for p in weights]).chunk(count)]
    dist.reduce_scatter(mine, chunks)
    shard.grad = mine / count
    optimizer.step()
    shard.grad = None
    parts = [torch.empty_like(shard.data) for _ in range(count)]
    dist.all_gather(parts, shard.data)
    with torch.no_grad():
        for p, new in zip(weights, torch.cat(parts).split([p.numel() for p in weights])):
            p.copy_(new.view_as(p))
