"""Thinks that every number has four bytes."""


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * 4 * (trained if p.requires_grad else 1)
    return total
