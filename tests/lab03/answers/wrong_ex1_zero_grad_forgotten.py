"""Thinks that backward() replaces the gradients, where it adds to them."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    optimizer.step()
    return loss.item()
