"""Thinks that gradients are zeroed right before the update, and so throws the new ones away."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()
