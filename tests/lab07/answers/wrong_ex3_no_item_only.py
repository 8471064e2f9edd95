"""Takes .item() and print out of the loop, and leaves backward in it."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        loss.backward()
        losses.append(loss.detach())
    return sum(losses).item()
