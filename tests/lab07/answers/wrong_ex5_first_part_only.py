"""Recomputes the first part only."""


def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False)
        outputs.append(model.part1(hidden.to(model.device1)))
    return torch.cat(outputs)
