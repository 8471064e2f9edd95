# %% wrong: adam_keeps_one
# Thinks that Adam keeps one tensor for each parameter, as momentum does.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 3}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * p.element_size() * (trained if p.requires_grad else 1)
    return total


# %% wrong: all_on_first_device
# Thinks that a model is on one device, that of its first parameter.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    place = str(next(model.parameters()).device)
    return {place: sum(p.numel() * p.element_size() * (trained if p.requires_grad else 1) for p in model.parameters())}


# %% wrong: buffers_too
# Thinks that buffers are trained as parameters are.

import itertools


def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for t in itertools.chain(model.parameters(), model.buffers()):
        learns = t.requires_grad or t.grad_fn is None and not isinstance(t, torch.nn.Parameter)
        place = str(t.device)
        total[place] = total.get(place, 0) + t.numel() * t.element_size() * (trained if learns else 1)
    return total


# %% wrong: device_objects
# Gives the devices themselves where their names as text are asked for.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for p in model.parameters():
        total[p.device] = total.get(p.device, 0) + p.numel() * p.element_size() * (trained if p.requires_grad else 1)
    return total


# %% wrong: four_bytes_always
# Thinks that every number has four bytes.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * 4 * (trained if p.requires_grad else 1)
    return total


# %% wrong: frozen_like_trained
# Thinks that a frozen parameter takes what any other takes.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for p in model.parameters():
        total[str(p.device)] = total.get(str(p.device), 0) + p.numel() * p.element_size() * trained
    return total


# %% wrong: frozen_takes_nothing
# Thinks that a frozen parameter takes no memory at all.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for p in model.parameters():
        total.setdefault(str(p.device), 0)
        if p.requires_grad:
            total[str(p.device)] += p.numel() * p.element_size() * trained
    return total


# %% wrong: held_not_peak
# Counts what Adam keeps, and forgets what it allocates during the step.

def training_memory(model, optimizer):
    tensors = {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.nbytes * (tensors if p.requires_grad else 1)
    return total


# %% wrong: numbers_not_bytes
# Counts numbers where bytes are asked for.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * (trained if p.requires_grad else 1)
    return total


# %% wrong: parameters_only
# Thinks that training takes the memory of the parameters, and forgets the gradients.

def training_memory(model, optimizer):
    states = {"sgd": 0, "momentum": 1, "adam": 3}[optimizer]
    total = {}
    for p in model.parameters():
        place = str(p.device)
        total[place] = total.get(place, 0) + p.numel() * p.element_size() * (1 + states)
    return total


# %% wrong: shared_twice
# Adds up layer by layer, so that a weight that two layers share counts twice.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    total = {}
    for layer in model.modules():
        for p in layer.parameters(recurse=False):
            place = str(p.device)
            total[place] = total.get(place, 0) + p.numel() * p.element_size() * (trained if p.requires_grad else 1)
    return total


# %% wrong: state_dict
# Thinks that the state dict is the list of parameters: it has buffers, and shared weights twice.

def training_memory(model, optimizer):
    trained = {"sgd": 2, "momentum": 3, "adam": 5}[optimizer]
    frozen = {name for name, p in model.named_parameters() if not p.requires_grad}
    total = {}
    for name, t in model.state_dict().items():
        place = str(t.device)
        total[place] = total.get(place, 0) + t.numel() * t.element_size() * (1 if name in frozen else trained)
    return total


# %% right: by_module
# Goes through the modules, and remembers which parameters it has seen.

def training_memory(model, optimizer):
    copies = dict(sgd=2, momentum=3, adam=5)[optimizer]
    seen, result = set(), {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            if id(parameter) in seen:
                continue
            seen.add(id(parameter))
            where = f"{parameter.device}"
            if where not in result:
                result[where] = 0
            result[where] += parameter.untyped_storage().nbytes() * (copies if parameter.requires_grad else 1)
    return result


# %% right: lists_tensors
# Makes the list of all tensors that training has for a parameter, and adds up their bytes.

from collections import Counter


def training_memory(model, optimizer):
    states = {"sgd": 0, "momentum": 1, "adam": 3}
    total = Counter()
    for name, p in model.named_parameters():
        tensors = [p]
        if p.requires_grad:
            tensors += [p] * (1 + states[optimizer])
        total[str(p.device)] += sum(t.nbytes for t in tensors)
    return total


# %% right: match_and_comprehension
# Two comprehensions and a match statement, with a warning.

import warnings


def training_memory(model, optimizer):
    match optimizer:
        case "sgd":
            states = 0
        case "momentum":
            states = 1
        case _:
            states = 3
    warnings.warn("Adam's step counter is left out")
    parameters = list(model.parameters())
    devices = {parameter.device for parameter in parameters}
    return {
        str(device): sum(
            p.numel() * p.element_size() * (1 + p.requires_grad * (1 + states))
            for p in parameters
            if p.device == device
        )
        for device in devices
    }


# %% wrong: state_in_float32
# Thinks that an optimizer keeps its numbers in float32, whatever the dtype of a parameter is.

def training_memory(model, optimizer):
    states = {"sgd": 0, "momentum": 1, "adam": 3}[optimizer]
    total = {}
    for parameter in model.parameters():
        size = parameter.numel() * parameter.element_size()
        place = str(parameter.device)
        training = size + 4 * states * parameter.numel() if parameter.requires_grad else 0
        total[place] = total.get(place, 0) + size + training
    return total
