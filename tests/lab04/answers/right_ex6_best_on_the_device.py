"""Finds the smallest on the device, with torch.minimum, and moves all in one copy."""


def train(model, loss_fn, optimizer, batches):
    kept, best = [], None
    for inputs, targets in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        best = loss if best is None else torch.minimum(best, loss)
        kept.append(loss)
    *losses, best = torch.stack([*kept, best]).cpu().numpy().tolist()
    return losses, best
