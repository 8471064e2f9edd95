"""Thinks that no gradient is always a mistake."""

def gradient_report(model):
    return {name: "cut" if p.grad is None else str(p.grad.device) for name, p in model.named_parameters()}
