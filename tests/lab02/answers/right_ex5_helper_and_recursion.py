"""A helper for one parameter, recursion over the modules, and a warning for what is cut."""

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
