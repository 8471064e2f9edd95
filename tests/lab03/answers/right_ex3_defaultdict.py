"""A defaultdict of lists, and a print of what is in it."""

from collections import defaultdict


def make_optimizers(model, lr):
    by_device = defaultdict(list)
    for name, parameter in model.named_parameters():
        print(name, "is on", parameter.device)
        by_device[str(parameter.device)].append(parameter)
    return [torch.optim.Adam(group, lr=lr) for group in by_device.values()]
