# %% wrong: cut_is_frozen
# Thinks that a layer behind a detach() is frozen.

def gradient_report(model):
    return {name: "frozen" if p.grad is None else str(p.grad.device) for name, p in model.named_parameters()}


# %% wrong: device_objects
# Gives devices where text is asked for.

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            report[name] = parameter.grad.device
        else:
            report[name] = "cut" if parameter.requires_grad else "frozen"
    return report


# %% wrong: device_of_the_parameter
# Reads the device of the parameter, which it has with and without a gradient.

def gradient_report(model):
    return {name: str(parameter.device) if parameter.requires_grad else "frozen" for name, parameter in model.named_parameters()}


# %% wrong: frozen_first
# Asks for requires_grad first, as if what is frozen now had never had a gradient.

def gradient_report(model):
    report = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            report[name] = "frozen"
        elif p.grad is None:
            report[name] = "cut"
        else:
            report[name] = str(p.grad.device)
    return report


# %% wrong: frozen_is_cut
# Thinks that no gradient is always a mistake.

def gradient_report(model):
    return {name: "cut" if p.grad is None else str(p.grad.device) for name, p in model.named_parameters()}


# %% wrong: no_none_check
# Thinks that every parameter has a gradient after backward.

def gradient_report(model):
    return {name: str(parameter.grad.device) for name, parameter in model.named_parameters()}


# %% wrong: none_as_text
# Makes text of whatever grad is: None becomes 'None'.

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        report[name] = str(getattr(parameter.grad, "device", None))
    return report


# %% wrong: one_entry_per_layer
# Gives one entry for each layer.

def gradient_report(model):
    report = {}
    for name, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        if own:
            grad = own[0].grad
            report[name] = "cut" if grad is None else str(grad.device)
    return report


# %% wrong: requires_grad_turned_round
# Mixes up what requires_grad says.

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            report[name] = "frozen" if parameter.requires_grad else "cut"
        else:
            report[name] = str(parameter.grad.device)
    return report


# %% wrong: trainable_only
# Leaves the frozen parameters out.

def gradient_report(model):
    return {
        name: "cut" if p.grad is None else str(p.grad.device) for name, p in model.named_parameters() if p.requires_grad
    }


# %% wrong: truth_of_a_tensor
# Asks for the truth of a gradient, which a tensor with many numbers does not have.

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if parameter.grad:
            report[name] = str(parameter.grad.device)
        else:
            report[name] = "cut" if parameter.requires_grad else "frozen"
    return report


# %% wrong: zero_is_cut
# Thinks that a gradient of zeros is no gradient.

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            report[name] = "frozen"
        elif parameter.grad is None or parameter.grad.abs().sum() == 0:
            report[name] = "cut"
        else:
            report[name] = str(parameter.grad.device)
    return report


# %% wrong: clears_afterwards
# Tidies up: the gradients are gone when the report is made, before optimizer.step() could use them.

def gradient_report(model):
    report = {}
    for name, p in model.named_parameters():
        if p.grad is not None:
            report[name] = str(p.grad.device)
        else:
            report[name] = "cut" if p.requires_grad else "frozen"
    model.zero_grad()
    return report


# %% right: conditional
# One dict comprehension with two conditions.

def gradient_report(model):
    return {
        name: f"{p.grad.device}" if p.grad is not None else "cut" if p.requires_grad else "frozen"
        for name, p in model.named_parameters()
    }


# %% right: helper_and_recursion
# A helper for one parameter, recursion over the modules, and a warning for what is cut.

import warnings


def word(parameter):
    if parameter.grad is not None:
        return str(parameter.grad.device)
    return "cut" if parameter.requires_grad else "frozen"


def gradient_report(model, prefix=""):
    report = {prefix + name: word(p) for name, p in model.named_parameters(recurse=False)}
    for name, child in model.named_children():
        report.update(gradient_report(child, f"{prefix}{name}."))
    if "cut" in report.values():
        warnings.warn("some parameters will never learn", stacklevel=2)
    return report


# %% right: three_steps
# Starts with all cut, then marks the frozen ones, then those with a gradient. Prints the report.

def gradient_report(model):
    named = dict(model.named_parameters())
    report = dict.fromkeys(named, "cut")
    report.update({name: "frozen" for name, p in named.items() if not p.requires_grad})
    report.update({name: str(p.grad.device) for name, p in named.items() if p.grad is not None})
    print(report)
    return report


# %% wrong: nothing_before_backward
# Thinks that there is nothing to report before a gradient has come anywhere, and returns an empty dict.

def gradient_report(model):
    report = {}
    if all(parameter.grad is None for parameter in model.parameters()):
        return report
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            report[name] = str(parameter.grad.device)
        else:
            report[name] = "cut" if parameter.requires_grad else "frozen"
    return report


# %% wrong: device_of_this_notebook
# Thinks that a gradient is always on one of the two devices of this notebook.

def gradient_report(model):
    report = {}
    for name, p in model.named_parameters():
        if p.grad is None:
            report[name] = "cut" if p.requires_grad else "frozen"
        elif p.grad.device == device0:
            report[name] = str(device0)
        else:
            report[name] = str(device1)
    return report
