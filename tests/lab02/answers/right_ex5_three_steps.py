"""Starts with all cut, then marks the frozen ones, then those with a gradient. Prints the report."""

def gradient_report(model):
    named = dict(model.named_parameters())
    report = dict.fromkeys(named, "cut")
    report.update({name: "frozen" for name, p in named.items() if not p.requires_grad})
    report.update({name: str(p.grad.device) for name, p in named.items() if p.grad is not None})
    print(report)
    return report
