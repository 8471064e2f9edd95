"""Thinks that the update comes before the backward pass, so each update uses the gradients of the batch before."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()
