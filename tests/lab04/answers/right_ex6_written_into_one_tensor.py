"""Writes each loss into a tensor that was made before the loop."""


def train(model, loss_fn, optimizer, batches):
    device = batches[0][1].device
    found = torch.zeros(len(batches), device=device)
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        found[step] = loss.detach()
        optimizer.step()
    found = [float(value) for value in found.cpu()]
    return found, min(found)
