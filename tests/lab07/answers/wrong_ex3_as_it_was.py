"""Leaves the loop as it was given."""


def overlapping(model, loss_fn, x, y, size):
    total = 0.0
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        loss.backward()
        total += loss.item()
        print("loss so far", total)
    return total
