"""Thinks that buffers are trained as parameters are."""

import itertools


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    total = {}
    for t in itertools.chain(model.parameters(), model.buffers()):
        learns = t.requires_grad or t.grad_fn is None and not isinstance(t, torch.nn.Parameter)
        place = str(t.device)
        total[place] = total.get(place, 0) + t.numel() * t.element_size() * (trained if learns else 1)
    return total
