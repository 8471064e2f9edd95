"""Keeps detached losses on the device and fetches all numbers after the last batch."""


def train(preprocess, parts, places, loss_fn, batches, lr):
    optimizers = []
    for part, place in zip(parts, places, strict=True):
        part.to(place)
        if list(part.parameters()):
            optimizers.append(torch.optim.SGD(part.parameters(), lr=lr, momentum=0.9))
    kept = []
    for raw, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=False)
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        loss.backward()
        [optimizer.step() for optimizer in optimizers]
        kept.append(loss.detach())
    return [loss.item() for loss in kept]
