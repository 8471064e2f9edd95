"""Thinks that backward() also updates the parameters."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    return loss.item()
