"""All forward passes, then a backward pass for each, the newest first."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        losses.append(loss_fn(model(rows), target) * len(rows) / len(x))
    for loss in reversed(losses):
        loss.backward()
    return torch.stack(losses).sum().item()
