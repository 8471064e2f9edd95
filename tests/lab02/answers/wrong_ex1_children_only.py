"""Looks at the direct children only, as the lesson's small model allowed."""

def devices_seen(model, x):
    seen = []

    def tell(name):
        return lambda module, inputs, output: seen.append((name, str(inputs[0].device), str(output.device)))

    handles = [child.register_forward_hook(tell(name)) for name, child in model.named_children()]
    model(x)
    for handle in handles:
        handle.remove()
    return seen
