"""Prints every loss, when all are launched."""


def overlapping(model, loss_fn, x, y, size):
    losses = []
    for rows, target in zip(x.split(size), y.split(size)):
        hidden = model.part0(rows).to(model.device1)
        losses.append(loss_fn(model.part1(hidden), target) * len(rows) / len(x))
    torch.autograd.backward(losses)
    for number, loss in enumerate(losses):
        print("loss", number, loss.item())
    return float(sum(losses))
