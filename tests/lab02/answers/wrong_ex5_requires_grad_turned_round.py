"""Mixes up what requires_grad says."""

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if parameter.grad is None:
            report[name] = "frozen" if parameter.requires_grad else "cut"
        else:
            report[name] = str(parameter.grad.device)
    return report
