"""Thinks that loss_fn fetches the target from wherever it is, as a model fetches its input."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
