"""Adds up layer by layer, so that a weight that two layers share counts twice."""


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    total = {}
    for layer in model.modules():
        for p in layer.parameters(recurse=False):
            place = str(p.device)
            total[place] = total.get(place, 0) + p.numel() * p.element_size() * (trained if p.requires_grad else 1)
    return total
