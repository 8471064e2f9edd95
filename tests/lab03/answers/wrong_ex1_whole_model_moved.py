"""Thinks that a model has to be put on the target's device before training, and so undoes the split."""


def train_step(model, optimizer, loss_fn, x, y):
    model.to(y.device)
    output = model(x).to(y.device)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
