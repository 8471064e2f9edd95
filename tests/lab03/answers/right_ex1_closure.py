"""Writes the step as a closure, and warns when the target has to be moved."""

import warnings


def train_step(model, optimizer, loss_fn, x, y):
    def closure():
        optimizer.zero_grad()
        output = model(x)
        if y.device != output.device:
            warnings.warn(f"target moved from {y.device} to {output.device}", stacklevel=2)
        loss = loss_fn(output, y.to(output)) if y.is_floating_point() else loss_fn(output, y.to(output.device))
        loss.backward()
        return loss

    return optimizer.step(closure).item()
