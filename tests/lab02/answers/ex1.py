# %% wrong: by_hand_in_a_row
# Thinks that a model is its leaves called one after the other, in the order in which they were made.

def devices_seen(model, x):
    seen = []
    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        before = x.device
        x = module(x)
        seen.append((name, str(before), str(x.device)))
    return seen


# %% wrong: children_only
# Looks at the direct children only, as the lesson's small model allowed.

def devices_seen(model, x):
    seen = []

    def tell(name):
        return lambda module, inputs, output: seen.append((name, str(inputs[0].device), str(output.device)))

    handles = [child.register_forward_hook(tell(name)) for name, child in model.named_children()]
    model(x)
    for handle in handles:
        handle.remove()
    return seen


# %% wrong: clears_all_hooks
# Cleans up by clearing the hooks of every module, those of other people too.

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


# %% wrong: device_objects
# Thinks that a torch.device is text, because it prints like text.

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


# %% wrong: dict_by_name
# Keeps one entry a name in a dict, so that a module that runs twice is seen once.

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


# %% wrong: every_module
# Hooks every module, also the containers and the model itself.

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


# %% wrong: hooks_left_behind
# Thinks that a hook ends with the function that registered it.

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


# %% wrong: loop_variable
# Thinks that a hook made in a loop remembers the name that the loop had then.

def devices_seen(model, x):
    seen, handles = [], []
    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        hook = lambda module, inputs, output: seen.append((name, str(inputs[0].device), str(output.device)))
        handles.append(module.register_forward_hook(hook))
    model(x)
    for handle in handles:
        handle.remove()
    return seen


# %% wrong: model_never_run
# Thinks that registering the hooks is enough, and never runs the model.

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


# %% wrong: order_of_definition
# Keeps what the hooks saw in a dict, and lists it in the order in which the modules were made.

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


# %% wrong: output_twice
# Thinks that the input of a module is always where its output is.

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


# %% wrong: prints_only
# Prints what the hooks see, and returns nothing.

def devices_seen(model, x):
    def tell(name):
        def hook(module, inputs, output):
            print(name, inputs[0].device, output.device)

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    model(x)
    for handle in handles:
        handle.remove()


# %% right: default_argument
# Binds the name as a default argument of a lambda, prints the table, works without gradients.

def devices_seen(model, x):
    seen = []
    handles = []
    for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        handles.append(
            m.register_forward_hook(lambda _, i, o, n=n: seen.append([n, f"{i[0].device}", f"{o.device}"]))
        )
    with torch.no_grad():
        model(x)
    for h in handles:
        h.remove()
    for row in seen:
        print(*row)
    return seen


# %% right: global_hook
# One hook for all modules of the process, which looks the name up, and is removed.

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


# %% right: pre_hook_and_hook
# Notes the input in a pre-hook and the output in a hook.

import warnings


def devices_seen(model, x):
    seen = []
    handles = []

    class Watch:
        def __init__(self, name):
            self.name = name

        def before(self, module, inputs):
            self.came_from = str(inputs[0].device)

        def after(self, module, inputs, output):
            seen.append((self.name, self.came_from, str(output.device)))

    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        watch = Watch(name)
        handles += [module.register_forward_pre_hook(watch.before), module.register_forward_hook(watch.after)]
    model(x)
    [handle.remove() for handle in handles]
    if not seen:
        warnings.warn("no module ran", stacklevel=2)
    return seen


# %% right: with_partial
# Gives each hook its name with functools.partial, and leaves the cleaning to an ExitStack.

from contextlib import ExitStack
from functools import partial


def devices_seen(model, x):
    seen = []

    def note(name, module, inputs, output):
        seen.append((name, str(inputs[0].device), str(output.device)))

    with ExitStack() as stack:
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.callback(module.register_forward_hook(partial(note, name)).remove)
        model(x)
    return seen
