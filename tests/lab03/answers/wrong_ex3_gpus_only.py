"""Thinks that parameters on the CPU need no optimizer."""


def make_optimizers(model, lr):
    groups = {}
    for parameter in model.parameters():
        if parameter.device.type != "cpu":
            groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]
