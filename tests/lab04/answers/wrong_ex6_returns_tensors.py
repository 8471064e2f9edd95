"""Never turns the losses into floats."""


def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, torch.stack(losses).min()
