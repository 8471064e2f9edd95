"""Waits for both devices in each turn, as one does for a clock."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        losses.append(loss_fn(model(rows), target) * len(rows) / len(x))
        for device in (model.device0, model.device1):
            torch.get_device_module(device).synchronize(device)
    total = sum(losses)
    total.backward()
    return total.item()
