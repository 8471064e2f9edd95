"""Loses zero_grad while rewriting, so gradients add up."""


def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, min(losses)
