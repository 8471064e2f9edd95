# %% wrong: sum_for_mean
# Adds up the gradients, and does not divide.


def sharded_step(copies, shards, optimizers):
    import torch

    P = len(copies)
    for r in range(P):
        for i, owner in enumerate(shards[r]):
            same = [list(c.parameters())[i] for c in copies]
            owner.grad = sum(p.grad.view(-1).chunk(P)[r].to(owner.device) for p in same)
        optimizers[r].step()
        optimizers[r].zero_grad()
    with torch.no_grad():
        for r in range(P):
            for i, owner in enumerate(shards[r]):
                for c in copies:
                    list(c.parameters())[i].view(-1).chunk(P)[r].copy_(owner)


# %% wrong: own_gradient_only
# Each device takes its part of its own copy's gradient.


def sharded_step(copies, shards, optimizers):
    import torch

    P = len(copies)
    for r in range(P):
        for owner, p in zip(shards[r], copies[r].parameters()):
            owner.grad = p.grad.view(-1).chunk(P)[r].clone()
        optimizers[r].step()
        optimizers[r].zero_grad()
    with torch.no_grad():
        for r in range(P):
            for i, owner in enumerate(shards[r]):
                for c in copies:
                    list(c.parameters())[i].view(-1).chunk(P)[r].copy_(owner)


# %% wrong: nothing_comes_back
# Forgets that the others need the new shard.


def sharded_step(copies, shards, optimizers):
    P = len(copies)
    for r in range(P):
        for i, owner in enumerate(shards[r]):
            same = [list(c.parameters())[i] for c in copies]
            owner.grad = sum(p.grad.view(-1).chunk(P)[r].to(owner.device) for p in same) / P
        optimizers[r].step()
        optimizers[r].zero_grad()


# %% wrong: gradients_stay
# Leaves the shards' gradients where they are.


def sharded_step(copies, shards, optimizers):
    import torch

    P = len(copies)
    for r in range(P):
        for i, owner in enumerate(shards[r]):
            same = [list(c.parameters())[i] for c in copies]
            owner.grad = sum(p.grad.view(-1).chunk(P)[r].to(owner.device) for p in same) / P
        optimizers[r].step()
    with torch.no_grad():
        for r in range(P):
            for i, owner in enumerate(shards[r]):
                for c in copies:
                    list(c.parameters())[i].view(-1).chunk(P)[r].copy_(owner)


# %% wrong: part_0_for_all
# Every device updates its own shard with the gradient of the first part.


def sharded_step(copies, shards, optimizers):
    import torch

    P = len(copies)
    for r in range(P):
        for i, owner in enumerate(shards[r]):
            same = [list(c.parameters())[i] for c in copies]
            owner.grad = sum(p.grad.view(-1).chunk(P)[0].to(owner.device) for p in same) / P
        optimizers[r].step()
        optimizers[r].zero_grad()
    with torch.no_grad():
        for r in range(P):
            for i, owner in enumerate(shards[r]):
                for c in copies:
                    list(c.parameters())[i].view(-1).chunk(P)[r].copy_(owner)


# %% right: through_flat_vectors
# One long part a device: all gradients for it are joined, added up, and taken apart again.


def sharded_step(copies, shards, optimizers):
    import torch

    P = len(copies)
    for r, mine in enumerate(shards):
        device = mine[0].device
        flat = [torch.cat([p.grad.flatten().chunk(P)[r] for p in c.parameters()]).to(device) for c in copies]
        mean = torch.stack(flat).mean(dim=0)
        for owner, part in zip(mine, mean.split([owner.numel() for owner in mine])):
            owner.grad = part
        optimizers[r].step()
        for owner in mine:
            owner.grad = None
        news = torch.cat([owner.detach() for owner in mine])
        for c in copies:
            parts = news.to(next(c.parameters()).device).split([owner.numel() for owner in mine])
            for p, part in zip(c.parameters(), parts):
                p.data.view(-1).chunk(P)[r].copy_(part)


# %% right: whole_mean_first
# Makes the whole mean on the first device, cuts it, and joins the shards to whole weights in the end.


def sharded_step(copies, shards, optimizers):
    import torch

    names = [name for name, _ in copies[0].named_parameters()]
    params = [dict(c.named_parameters()) for c in copies]
    for i, name in enumerate(names):
        home = params[0][name].device
        mean = torch.stack([p[name].grad.to(home) for p in params]).mean(0).flatten()
        for part, mine in zip(mean.chunk(len(copies)), shards):
            mine[i].grad = part.to(mine[i].device)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    for i, name in enumerate(names):
        whole = torch.cat([mine[i].detach().cpu() for mine in shards])
        for p in params:
            with torch.no_grad():
                p[name].copy_(whole.view_as(p[name]))
