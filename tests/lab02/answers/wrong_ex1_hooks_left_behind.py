"""Thinks that a hook ends with the function that registered it."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(inputs[0].device), str(output.device)))

        return hook

    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        module.register_forward_hook(tell(name))
    model(x)
    return seen
