"""Trains copies of the parts and leaves the given ones as they were."""


def train(preprocess, parts, places, loss_fn, batches, lr):
    import copy

    parts = [copy.deepcopy(part).to(place) for part, place in zip(parts, places, strict=True)]
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
