"""Keeps the losses with their graph and asks each for its number after the loop."""


def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss)
        print("step", len(losses), "launched")
    losses = [loss.item() for loss in losses]
    return losses, min(losses)
