# %% wrong: nothing_is_reduced
# Each rank trains on its own share.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


# %% wrong: the_sum_of_gradients
# all_reduce sums unless told otherwise.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad)
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


# %% wrong: reduces_after_the_step
# The optimizer has used the rank's own gradients.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


# %% wrong: gradients_add_up
# Without zero_grad the second step has the first one's gradients.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


# %% wrong: every_rank_takes_the_whole_batch
# Right weights, and no time won.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


# %% wrong: all_take_the_first_share
# Every rank trains on rank 0's samples.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    count = dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[0]), y.chunk(count)[0])
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    optimizer.step()
    mean = loss.detach()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean


# %% wrong: the_loss_of_its_share
# Each rank returns another loss.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    optimizer.step()
    mean = loss.detach()
    return mean


# %% wrong: returns_nothing
# The loss is lost.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist

    rank, count = dist.get_rank(), dist.get_world_size()
    loss = loss_fn(model(x.chunk(count)[rank]), y.chunk(count)[rank])
    optimizer.zero_grad()
    loss.backward()
    for p in model.parameters():
        dist.all_reduce(p.grad, dist.ReduceOp.AVG)
    optimizer.step()


# %% right: one_flat_vector
# One all-reduce of all gradients: their sum, divided by the number of ranks.


def train_step(model, optimizer, loss_fn, x, y):
    import torch.distributed as dist
    from torch.nn.utils import parameters_to_vector

    ranks = dist.get_world_size()
    mine = slice(dist.get_rank() * len(x) // ranks, (dist.get_rank() + 1) * len(x) // ranks)
    model.zero_grad()
    loss = loss_fn(model(x[mine]), y[mine])
    (loss / ranks).backward()
    flat = parameters_to_vector([p.grad for p in model.parameters()])
    dist.all_reduce(flat)
    for p, piece in zip(model.parameters(), flat.split([p.numel() for p in model.parameters()])):
        p.grad.copy_(piece.view_as(p))
    optimizer.step()
    total = loss.detach() / ranks
    dist.all_reduce(total)
    return total.item()
