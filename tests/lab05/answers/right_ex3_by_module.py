"""Goes through the modules, and remembers which parameters it has seen."""


def training_memory(model, optimizer):
    copies = dict(sgd=2, momentum=3, adam=4)[optimizer]
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
