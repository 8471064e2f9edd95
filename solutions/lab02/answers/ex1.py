# %% wrong: asks_again_after_an_error
# Runs the model a second time after an error, with more hooks, to see where it was.

def devices_seen(model, x):
    def run(with_pre):
        seen, handles = [], []
        for name, module in model.named_modules():
            if list(module.children()):
                continue

            def before(module, inputs, name=name):
                seen.append((name, str(inputs[0].device), "raised"))

            def after(module, inputs, output, name=name):
                entry = (name, str(inputs[0].device), str(output.device))
                if with_pre:
                    seen[-1] = entry
                else:
                    seen.append(entry)

            if with_pre:
                handles.append(module.register_forward_pre_hook(before))
            handles.append(module.register_forward_hook(after))
        try:
            model(x)
            return seen, False
        except Exception:
            return seen, True
        finally:
            for handle in handles:
                handle.remove()

    seen, failed = run(False)
    return run(True)[0] if failed else seen


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
            seen.append((name, str(inputs[0].device), "raised" if output is None else str(output.device)))

        return hook

    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        module.register_forward_hook(tell(name), always_call=True)
    try:
        model(x)
    except Exception:
        pass
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
    seen, handles = {}, []

    def tell(name):
        def hook(module, inputs, output):
            seen[name] = (name, str(inputs[0].device), "raised" if output is None else str(output.device))

        return hook

    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_hook(tell(name), always_call=True))
    try:
        model(x)
    except Exception:
        pass
    for handle in handles:
        handle.remove()
    return list(seen.values())


# %% wrong: error_comes_out
# Cleans up after an error, and lets it out, so that what was seen is lost.

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(inputs[0].device), str(output.device)))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    try:
        model(x)
    finally:
        for handle in handles:
            handle.remove()
    return seen


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


# %% wrong: hooks_left_after_an_error
# Removes the hooks where all went well, and forgets them where it did not.

def devices_seen(model, x):
    seen, open_calls, handles = [], [], []

    def before(name):
        return lambda module, inputs: open_calls.append((name, str(inputs[0].device)))

    def after(module, inputs, output):
        seen.append((*open_calls.pop(), str(output.device)))

    for name, module in model.named_modules():
        if not list(module.children()):
            handles += [module.register_forward_pre_hook(before(name)), module.register_forward_hook(after)]
    try:
        model(x)
        for handle in handles:
            handle.remove()
    except Exception:
        if open_calls:
            seen.append((*open_calls.pop(), "raised"))
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


# %% wrong: last_one_is_blamed
# Blames the last layer that was called, whether it was at work or the model's own forward.

def devices_seen(model, x):
    seen, handles = [], []

    def before(name):
        return lambda module, inputs: seen.append([name, str(inputs[0].device), "raised"])

    def after(module, inputs, output):
        seen[-1][2] = str(output.device)

    for name, module in model.named_modules():
        if not list(module.children()):
            handles += [module.register_forward_pre_hook(before(name)), module.register_forward_hook(after)]
    try:
        model(x)
    except Exception:
        seen[-1][2] = "raised"
    for handle in handles:
        handle.remove()
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


# %% wrong: raised_is_left_out
# Returns what ran well, and not the layer that raised.

def devices_seen(model, x):
    seen = []

    def tell(name):
        def hook(module, inputs, output):
            seen.append((name, str(inputs[0].device), str(output.device)))

        return hook

    handles = [m.register_forward_hook(tell(n)) for n, m in [(n, m) for n, m in model.named_modules() if not list(m.children())]]
    try:
        model(x)
    except Exception as error:
        print(error)
    finally:
        for handle in handles:
            handle.remove()
    return seen


# %% wrong: runtime_errors_only
# Thinks that whatever a model raises is a RuntimeError, because PyTorch's own errors are.

def devices_seen(model, x):
    seen, handles = [], []
    for name, module in model.named_modules():
        if list(module.children()):
            continue

        def before(module, inputs, name=name):
            seen.append((name, str(inputs[0].device), "raised"))

        def after(module, inputs, output, name=name):
            seen[-1] = (name, str(inputs[0].device), str(output.device))

        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        model(x)
    except RuntimeError:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return seen


# %% wrong: skips_the_root
# Thinks that the entry with the empty name is never a layer.

def devices_seen(model, x):
    seen, handles = [], []
    for name, module in model.named_modules():
        if name == "" or list(module.children()):
            continue

        def before(module, inputs, name=name):
            seen.append((name, str(inputs[0].device), "raised"))

        def after(module, inputs, output, name=name):
            seen[-1] = (name, str(inputs[0].device), str(output.device))

        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    try:
        model(x)
    except Exception:
        pass
    finally:
        for handle in handles:
            handle.remove()
    return seen


# %% right: always_called
# One hook that runs also for a layer that raised, where its output is None; the table is printed.

def devices_seen(model, x):
    seen, handles = [], []
    for n, m in model.named_modules():
        if not list(m.children()):
            handles.append(
                m.register_forward_hook(
                    lambda _, i, o, n=n: seen.append([n, f"{i[0].device}", "raised" if o is None else f"{o.device}"]),
                    always_call=True,
                )
            )
    try:
        with torch.no_grad():
            model(x)
    except Exception as error:
        print("it raised:", error)
    for h in handles:
        h.remove()
    for row in seen:
        print(*row)
    return seen


# %% right: global_hooks
# Two hooks for all modules of the process, which look the name up, and are removed. Returns a tuple.

def devices_seen(model, x):
    names = {module: name for name, module in model.named_modules() if len(list(module.children())) == 0}
    seen, working = [], None

    def before(module, inputs):
        nonlocal working
        if module in names:
            working = (names[module], str(inputs[0].device))

    def after(module, inputs, output):
        nonlocal working
        if module in names:
            seen.append((*working, str(output.device)))
            working = None

    first = torch.nn.modules.module.register_module_forward_pre_hook(before)
    second = torch.nn.modules.module.register_module_forward_hook(after)
    try:
        model(x)
    except Exception:
        if working is not None:
            seen.append((*working, "raised"))
    finally:
        first.remove()
        second.remove()
    return tuple(seen)


# %% right: entry_is_completed
# Writes an entry before the layer runs and completes it afterwards: who is not completed has raised.

def devices_seen(model, x):
    seen = []
    handles = []

    class Watch:
        def __init__(self, name):
            self.name = name

        def before(self, module, inputs):
            seen.append([self.name, str(inputs[0].device), "raised"])

        def after(self, module, inputs, output):
            seen[-1][2] = str(output.device)

    for name, module in [(n, m) for n, m in model.named_modules() if not list(m.children())]:
        watch = Watch(name)
        handles += [module.register_forward_pre_hook(watch.before), module.register_forward_hook(watch.after)]
    try:
        model(x)
    except Exception:
        pass
    [handle.remove() for handle in handles]
    return seen


# %% right: with_partial
# Gives each hook its name with functools.partial, and leaves the errors and the cleaning to an ExitStack.

from contextlib import ExitStack, suppress
from functools import partial


def devices_seen(model, x):
    started, finished = [], []

    def start(name, module, inputs):
        started.append((name, str(inputs[0].device)))

    def finish(module, inputs, output):
        finished.append(str(output.device))

    with ExitStack() as stack:
        stack.enter_context(suppress(Exception))
        for name, module in model.named_modules():
            if next(module.children(), None) is None:
                stack.callback(module.register_forward_pre_hook(partial(start, name)).remove)
                stack.callback(module.register_forward_hook(finish).remove)
        model(x)
    finished += ["raised"] * (len(started) - len(finished))
    return [(*start, end) for start, end in zip(started, finished)]


# %% wrong: two_kinds_of_errors
# Catches the two kinds of errors that the layers raised when it was tried, and not the KeyError of a model's own
# forward.

def devices_seen(model, x):
    seen, running, handles = [], [], []

    def begins(name):
        return lambda module, inputs: running.append((name, str(inputs[0].device)))

    def ends(module, inputs, output):
        seen.append((*running.pop(), str(output.device)))

    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(module.register_forward_pre_hook(begins(name)))
            handles.append(module.register_forward_hook(ends))
    try:
        model(x)
    except (RuntimeError, ValueError):
        seen += [(name, place, "raised") for name, place in running]
    finally:
        for handle in handles:
            handle.remove()
    return seen
