"""Collects the parameters of every module and of its children again, so nested ones come twice."""


def make_optimizers(model, lr):
    groups = {}
    for module in model.modules():
        for parameter in module.parameters():
            groups.setdefault(parameter.device, []).append(parameter)
    return [torch.optim.Adam(group, lr=lr) for group in groups.values()]
