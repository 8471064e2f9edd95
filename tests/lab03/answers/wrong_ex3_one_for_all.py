"""Thinks that one optimizer in a list is one for each device."""


def make_optimizers(model, lr):
    return [torch.optim.Adam(model.parameters(), lr=lr)]
