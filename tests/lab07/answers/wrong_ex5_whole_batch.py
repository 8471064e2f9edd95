"""Recomputes the whole batch at once, so all its activations are there again in the backward pass."""


def recomputed(model, x, size):
    hidden = checkpoint(model.part0, x.to(model.device0), use_reentrant=False)
    return checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False)
