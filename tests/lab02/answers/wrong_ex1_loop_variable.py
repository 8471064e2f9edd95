"""Thinks that a hook made in a loop remembers the name that the loop had then."""

def devices_seen(model, x):
    seen, handles = [], []
    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        hook = lambda module, inputs, output: seen.append((name, str(inputs[0].device), str(output.device)))
        handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return seen
