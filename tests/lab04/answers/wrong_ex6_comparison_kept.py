"""Keeps the comparison: an if waits too."""


def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if loss < best:
            best = loss.detach()
    return torch.stack(losses).tolist(), float(best)
