"""Trains rightly, and returns the weighted loss of the last micro-batch."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(rows), target.to(model.device1)) * len(rows) / len(x)
        loss.backward()
    optimizer.step()
    return loss.item()
