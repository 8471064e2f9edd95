"""Cuts the batch and forgets to cut the targets: each micro-batch gets the first ones."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for rows in x.split(size):
        target = y[: len(rows)].to(model.device1)
        loss = loss_fn(model(rows), target) * len(rows) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total
