"""Thinks that a torch.device is text, because it prints like text."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, inputs[0].device, output.device))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    model(x)
    for handle in handles:
        handle.remove()
    return seen
