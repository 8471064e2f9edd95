"""Detaches what goes into the second part, so that the first keeps nothing."""


def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = model.part0(piece).detach().to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)
