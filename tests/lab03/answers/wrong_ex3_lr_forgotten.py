"""Forgets to hand the learning rate on, so Adam takes its own."""


def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(group) for group in groups.values()]
