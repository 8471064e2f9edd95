"""Lab 18: exercise 3 takes the other ranks' gradients from a dict that all threads see.

lab: lab18
"""

# %% instead of ex3
BOARD = {}


def train_step(model, optimizer, x, y, max_norm):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    named = {name.removeprefix("inner."): each for name, each in model.named_parameters() if each.grad is not None}
    dist.barrier()
    BOARD[rank] = {name: each.grad.clone() for name, each in named.items()}
    dist.barrier()
    square = 0.0
    for name, each in named.items():
        parts = [BOARD[other][name] for other in range(ranks)]
        if name in ("up.weight", "up.bias", "down.weight"):
            square += sum(float(part.square().sum()) for part in parts)
        elif name.startswith("head"):
            square += float(each.grad.square().sum())
        else:
            each.grad = sum(parts)
            square += float(each.grad.square().sum())
    norm = square**0.5
    for each in named.values():
        each.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
    optimizer.step()
    return loss.item(), norm
