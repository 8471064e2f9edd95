"""Cleans up by clearing the hooks of every module, those of other people too."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(inputs[0].device), str(output.device)))

        return hook

    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        module.register_forward_hook(tell(name))
    model(x)
    for module in model.modules():
        module._forward_hooks.clear()
    return seen
