"""Gives the devices themselves where their names as text are asked for."""


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    total = {}
    for p in model.parameters():
        total[p.device] = total.get(p.device, 0) + p.numel() * p.element_size() * (trained if p.requires_grad else 1)
    return total
