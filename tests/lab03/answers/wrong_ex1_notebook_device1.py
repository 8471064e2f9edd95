"""Thinks that every model ends on device1, and uses the notebook's."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(device1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
