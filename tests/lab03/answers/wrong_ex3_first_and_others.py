"""Splits into the first parameter's device and all others, as if there were never three."""


def make_optimizers(model, lr):
    device = next(model.parameters()).device
    same = [p for p in model.parameters() if p.device == device]
    others = [p for p in model.parameters() if p.device != device]
    return [torch.optim.Adam(same, lr=lr)] + ([torch.optim.Adam(others, lr=lr)] if others else [])
