"""Thinks that printing the loss is returning it."""


def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")
