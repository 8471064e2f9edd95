"""Keeps the losses, and goes backward through one after the other when all are there."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    losses = [
        loss_fn(model(rows), target.to(model.device1)) * len(rows) / len(x)
        for rows, target in zip(x.split(size), y.split(size))
    ]
    for loss in reversed(losses):
        loss.backward()
    optimizer.step()
    return sum(loss.item() for loss in losses)
