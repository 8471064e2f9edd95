"""Thinks that printing a tensor needs no value."""


def overlapping(model, loss_fn, x, y, size):
    total = 0
    for rows, target in zip(x.split(size), y.split(size)):
        total = total + loss_fn(model(rows), target) * len(rows) / len(x)
        print("loss so far", total)
    total.backward()
    return total.item()
