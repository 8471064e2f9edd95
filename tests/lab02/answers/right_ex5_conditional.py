"""One dict comprehension with two conditions."""

def gradient_report(model):
    return {
        name: f"{p.grad.device}" if p.grad is not None else "cut" if p.requires_grad else "frozen"
        for name, p in model.named_parameters()
    }
