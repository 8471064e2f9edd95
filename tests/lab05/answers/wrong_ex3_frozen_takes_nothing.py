"""Thinks that a frozen parameter takes no memory at all."""


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    total = {}
    for p in model.parameters():
        total.setdefault(str(p.device), 0)
        if p.requires_grad:
            total[str(p.device)] += p.numel() * p.element_size() * trained
    return total
