"""Puts one checkpoint around the loop, which computes all micro-batches again at once."""


def recomputed(model, x, size):
    def loop(x):
        return torch.cat([model(piece) for piece in x.split(size)])

    return checkpoint(loop, x, use_reentrant=False)
