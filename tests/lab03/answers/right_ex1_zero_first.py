"""Zeroes the gradients first, and moves the target before the forward pass is used."""


def train_step(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad(set_to_none=False)
    output = model(x)
    target = y.to(output.device, non_blocking=True)
    loss = loss_fn(output, target)
    loss.backward()
    optimizer.step()
    return float(loss)
