"""Sends what is between the parts through the CPU, which waits for it."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = model.part0(rows).cpu().to(model.device1)
        losses.append(loss_fn(model.part1(hidden), target) * len(rows) / len(x))
    total = sum(losses)
    total.backward()
    return total.item()
