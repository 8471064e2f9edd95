"""Recomputes the second part only."""


def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = model.part0(piece).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)
