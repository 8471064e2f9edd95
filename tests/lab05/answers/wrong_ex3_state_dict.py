"""Thinks that the state dict is the list of parameters: it has buffers, and shared weights twice."""


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    total = {}
    for name, t in model.state_dict().items():
        place = str(t.device)
        total[place] = total.get(place, 0) + t.numel() * t.element_size() * (1 if name in frozen else trained)
    return total
