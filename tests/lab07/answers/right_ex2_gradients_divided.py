"""Adds up the losses times their rows, and divides the gradients in the end."""


def train_step(model, optimizer, loss_fn, x, y, size):
    for parameter in model.parameters():
        parameter.grad = None
    total = 0.0
    for start in range(0, len(x), size):
        rows, target = x[start : start + size], y[start : start + size]
        loss = loss_fn(model.part1(model.part0(rows.to(model.device0)).to(model.device1)), target.to(model.device1))
        (loss * len(rows)).backward()
        total += loss.item() * len(rows)
    for parameter in model.parameters():
        parameter.grad /= len(x)
    optimizer.step()
    return total / len(x)
