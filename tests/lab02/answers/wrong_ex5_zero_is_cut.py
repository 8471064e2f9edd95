"""Thinks that a gradient of zeros is no gradient."""

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
