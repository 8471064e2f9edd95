"""Thinks that a model has one device, that of its first parameter."""


def train_step(model, optimizer, loss_fn, x, y):
    device = next(model.parameters()).device
    x, y = x.to(device), y.to(device)
    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
