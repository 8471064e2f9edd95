"""Looks in each turn whether the loss is a number: an if waits too."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        if torch.isnan(loss):
            raise ValueError("the loss is not a number")
        losses.append(loss)
    total = sum(losses)
    total.backward()
    return total.item()
