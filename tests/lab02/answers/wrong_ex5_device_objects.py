"""Gives devices where text is asked for."""

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            report[name] = parameter.grad.device
        else:
            report[name] = "cut" if parameter.requires_grad else "frozen"
    return report
