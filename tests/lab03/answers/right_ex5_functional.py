"""Folds the parts over the batch with functools.reduce, and preprocesses all batches first."""

from functools import reduce


def train(preprocess, parts, places, loss_fn, batches, lr):
    stages = [(part.to(place), place) for part, place in zip(parts, places, strict=True)]
    optimizer = torch.optim.SGD(
        [{"params": list(part.parameters())} for part, _ in stages if list(part.parameters())], lr, 0.9
    )
    ready = [(preprocess(raw), y) for raw, y in batches]

    def one(x, y):
        output = reduce(lambda value, stage: stage[0](value.to(stage[1])), stages, x)
        loss = loss_fn(output, y.to(output.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return [one(x, y) for x, y in ready]
