"""Gives up micro-batches: without them nothing can wait in between."""


def overlapping(model, loss_fn, x, y, size):
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.item()
