"""Thinks that the loss of a step is the one after the update."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    y = y.to(output.device)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        return loss_fn(model(x), y).item()
