"""Turns autograd off in the first part, so that it keeps nothing."""


def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        with torch.no_grad():
            hidden = model.part0(piece)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False))
    return torch.cat(outputs)
