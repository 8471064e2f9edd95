"""One hook for all modules of the process, which looks the name up, and is removed."""

def devices_seen(model, x):
    names = {module: name for name, module in model.named_modules() if len(list(module.children())) == 0}
    seen = []

    def hook(module, inputs, output):
        if module in names:
            seen.append((names[module], str(inputs[0].device), str(output.device)))

    handle = torch.nn.modules.module.register_module_forward_hook(hook)
    try:
        model(x)
    finally:
        handle.remove()
    return seen
