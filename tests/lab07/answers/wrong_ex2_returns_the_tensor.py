"""Returns the loss as a tensor."""


def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    loss = 0
    for rows, target in zip(x.split(size), y.split(size)):
        loss = loss + loss_fn(model(rows), target.to(model.device1)) * len(rows) / len(x)
    loss.backward()
    optimizer.step()
    return loss
