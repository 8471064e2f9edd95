"""Thinks that registering the hooks is enough, and never runs the model."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(inputs[0].device), str(output.device)))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    for handle in handles:
        handle.remove()
    return seen
