"""Keeps one parameter for each device, the last one, because the dict entry is overwritten."""


def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups[parameter.device] = [parameter]
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]
