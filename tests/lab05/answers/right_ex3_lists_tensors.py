"""Makes the list of all tensors that training has for a parameter, and adds up their bytes."""

from collections import Counter


def training_memory(model, optimizer):
    states = {"sgd": 0, "momentum": 1, "adam": 2}
    total = Counter()
    for name, p in model.named_parameters():
        tensors = [p]
        if p.requires_grad:
            tensors += [p] * (1 + states[optimizer])
        total[str(p.device)] += sum(t.nbytes for t in tensors)
    return total
