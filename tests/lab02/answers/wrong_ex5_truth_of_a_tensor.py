"""Asks for the truth of a gradient, which a tensor with many numbers does not have."""

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        if parameter.grad:
            report[name] = str(parameter.grad.device)
        else:
            report[name] = "cut" if parameter.requires_grad else "frozen"
    return report
