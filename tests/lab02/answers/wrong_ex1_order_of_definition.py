"""Keeps what the hooks saw in a dict, and lists it in the order in which the modules were made."""

def devices_seen(model, x):
    leaves = [(n, m) for n, m in model.named_modules() if not list(m.children())]
    seen = {}

    def tell(name):
        def hook(module, inputs, output):
            seen[name] = (name, str(inputs[0].device), str(output.device))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in leaves]
    model(x)
    for handle in handles:
        handle.remove()
    return [seen[name] for name, _ in leaves]
