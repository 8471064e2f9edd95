"""Updates after each micro-batch: that is training with small batches."""


def train_step(model, optimizer, loss_fn, x, y, size):
    total = 0.0
    for rows, target in zip(x.split(size), y.split(size)):
        optimizer.zero_grad()
        loss = loss_fn(model(rows), target.to(model.device1))
        loss.backward()
        optimizer.step()
        total += loss.item() * len(rows) / len(x)
    return total
