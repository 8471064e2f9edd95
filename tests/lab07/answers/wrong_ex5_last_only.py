"""Keeps the output of the last micro-batch only."""


def recomputed(model, x, size):
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False)
        output = checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False)
    return output
