"""Sorts by device and uses itertools.groupby, with a tuple as result."""

from itertools import groupby


def make_optimizers(model, lr):
    def place(parameter):
        return str(parameter.device)

    ordered = sorted(model.parameters(), key=place)
    return tuple(torch.optim.Adam(list(group), lr=lr, foreach=False) for _, group in groupby(ordered, key=place))
