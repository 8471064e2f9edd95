"""Hooks every module, also the containers and the model itself."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(inputs[0].device), str(output.device)))

        return hook

    handles = [module.register_forward_hook(tell(name)) for name, module in model.named_modules()]
    model(x)
    for handle in handles:
        handle.remove()
    return seen
