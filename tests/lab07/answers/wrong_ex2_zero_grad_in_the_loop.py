"""Clears the gradients before each micro-batch, so only those of the last are left."""


def train_step(model, optimizer, loss_fn, x, y, size):
    total = 0.0
    for rows, target in zip(x.split(size), y.split(size)):
        optimizer.zero_grad()
        loss = loss_fn(model(rows), target.to(model.device1)) * len(rows) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total
