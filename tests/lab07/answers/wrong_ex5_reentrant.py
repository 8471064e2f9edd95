"""Uses the old kind of checkpoint, which gives no gradients where its input needs none."""


def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=True)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=True))
    return torch.cat(outputs)
