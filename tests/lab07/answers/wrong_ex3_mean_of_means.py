"""Loses the weights while rewriting, and takes the mean of the losses."""


def overlapping(model, loss_fn, x, y, size):
    losses = [loss_fn(model(rows), target) for rows, target in zip(x.split(size), y.split(size))]
    total = torch.stack(losses).mean()
    total.backward()
    return total.item()
