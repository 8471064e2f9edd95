"""Thinks that a layer behind a detach() is frozen."""

def gradient_report(model):
    return {name: "frozen" if p.grad is None else str(p.grad.device) for name, p in model.named_parameters()}
