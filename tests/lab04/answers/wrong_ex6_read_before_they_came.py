"""Copies without waiting, and reads what has not arrived: on a real GPU that is any number."""


def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().to("cpu", non_blocking=True))
    losses = [loss.item() for loss in losses]
    return losses, min(losses)
