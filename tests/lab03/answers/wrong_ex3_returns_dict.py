"""Returns the dict that sorted the parameters, with optimizers for values."""


def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        groups.setdefault(parameter.device, []).append(parameter)
    return {device: torch.optim.Adam(group, lr=lr) for device, group in groups.items()}
