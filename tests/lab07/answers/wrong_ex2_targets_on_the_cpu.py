"""Leaves the targets on the CPU."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total
