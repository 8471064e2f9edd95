"""Gives each hook its name with functools.partial, and leaves the cleaning to an ExitStack."""

from contextlib import ExitStack
from functools import partial


def devices_seen(model, x):
    seen = []

    def note(name, module, inputs, output):
        seen.append((name, str(inputs[0].device), str(output.device)))

    with ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.callback(module.register_forward_hook(partial(note, name)).remove)
        model(x)
    return seen
