"""Leaves the loop as it was given."""


def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if loss < best:
            best = loss.item()
        print("loss", loss)
    return losses, best
