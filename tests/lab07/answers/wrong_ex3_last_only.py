"""Goes backward after the loop, through the last loss only."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        losses.append(loss.detach())
    loss.backward()
    return sum(losses).item()
