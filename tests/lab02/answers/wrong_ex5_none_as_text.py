"""Makes text of whatever grad is: None becomes 'None'."""

def gradient_report(model):
    report = {}
    for name, parameter in model.named_parameters():
        report[name] = str(getattr(parameter.grad, "device", None))
    return report
