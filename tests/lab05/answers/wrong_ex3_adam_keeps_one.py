"""Thinks that Adam keeps one tensor for each parameter, as momentum does."""


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 3}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * p.element_size() * (trained if p.requires_grad else 1)
    return total
