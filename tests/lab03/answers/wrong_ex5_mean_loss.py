"""Returns one mean over all batches in a list."""


def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
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
    return [sum(losses) / len(losses)]
