"""Takes it that the batch is on the first device already."""


def recomputed(model, x, size):
    outputs = []
    for piece in x.split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)
