"""Prints every second step only."""


def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) % 2 == 0:
            print("loss", loss.item())
    losses = torch.stack(losses).tolist()
    return losses, min(losses)
