"""Moves the model to one device, where nothing has to wait for another."""


def overlapping(model, loss_fn, x, y, size):
    model.to(model.device1)
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        output = model.part1(model.part0(rows.to(model.device1)))
        losses.append(loss_fn(output, target) * len(rows) / len(x))
    total = sum(losses)
    total.backward()
    return total.item()
