"""Thinks that one optimizer with a group for each device is several optimizers."""


def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam([{"params": group} for group in groups.values()], lr=lr)]
