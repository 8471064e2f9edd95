"""Lets the model zero its gradients, and keeps the number before the update."""


def train_step(model, optimizer, loss_fn, x, y):
    model.train()
    prediction = model(x)
    y = y.to(device=prediction.device)
    loss = loss_fn(prediction, y)
    value = loss.detach().cpu().item()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    return value
