"""Thinks that training takes the memory of the parameters, and forgets the gradients."""


def training_memory(model, optimizer):
    states = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * p.element_size() * (1 + states)
    return total
