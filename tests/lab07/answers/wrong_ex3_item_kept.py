"""Takes backward out of the loop, and keeps .item() in it."""


def overlapping(model, loss_fn, x, y, size):
    losses, total = [], 0.0
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        losses.append(loss)
        total += loss.item()
    sum(losses).backward()
    return total
