"""Keeps one entry a name in a dict, so that a module that runs twice is seen once."""

def devices_seen(model, x):
    seen = {}

    def tell(name):
        def hook(module, inputs, output):
            seen[name] = (name, str(inputs[0].device), str(output.device))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    model(x)
    for handle in handles:
        handle.remove()
    return list(seen.values())
