"""Uses Python's min on tensors: it compares, so it waits."""


def train(model, loss_fn, optimizer, batches):
    losses, best = [], None
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        best = loss.detach() if best is None else min(best, loss.detach())
    return [loss.item() for loss in losses], best.item()
