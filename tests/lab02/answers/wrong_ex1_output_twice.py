"""Thinks that the input of a module is always where its output is."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(output.device), str(output.device)))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    model(x)
    for handle in handles:
        handle.remove()
    return seen
