# %% wrong: last_output_only
# Compares what the models return, and names the last part.

def first_difference(whole, split, x):
    mine, theirs = split(x).cpu(), whole(x)
    if torch.allclose(mine, theirs, rtol=1e-3, atol=1e-4):
        return None
    return [name for name, _ in whole.named_modules()][-1]


# %% wrong: weights_compared
# Compares the weights, so a part in another mode or without weights is never named.

def first_difference(whole, split, x):
    theirs = dict(split.named_parameters())
    for name, parameter in whole.named_parameters():
        if not torch.allclose(parameter.cpu(), theirs[name].cpu(), rtol=1e-3, atol=1e-4):
            return name.rpartition(".")[0]
    return None


# %% wrong: not_the_leaves
# Watches all parts, so it names a group that ends later than the part in it.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            def note(part, inputs, output, name=name):
                seen[name] = output.detach().cpu().clone()
            handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in (n for n, _ in whole.named_modules() if n):
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: direct_children
# Watches the direct children only.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_children():
            if True:
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: order_of_registration
# Goes through the parts in the order in which they were made, not called.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in (n for n, _ in whole.named_modules() if n in theirs):
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: last_difference
# Returns the last part that differs.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in reversed(list(theirs)):
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: hooks_stay
# Leaves its hooks in the models.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: evaluation_mode
# Switches both models to evaluation mode, so what differs in training mode is not seen.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        model.eval()
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: evaluation_mode_for_a_moment
# Compares in evaluation mode and goes back to training mode, so what differs in training mode only is not seen.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = [], []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen.append((name, output.detach().cpu().clone()))
                handles.append(part.register_forward_hook(note))
        modes = [part.training for part in model.modules()]
        model.eval()
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        for part, mode in zip(model.modules(), modes):
            part.training = mode
        return seen

    for (name, a), (_, b) in zip(outputs_of(whole), outputs_of(split)):
        if a.shape != b.shape or not torch.allclose(a, b, rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: shapes_not_compared
# Compares the numbers without looking at the shapes, and torch.allclose refuses what cannot be broadcast.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None



# %% wrong: exactly_equal
# Wants the same bits, so rounding is a difference.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.equal(mine[name], theirs[name]):
            return name
    return None


# %% wrong: no_copy_of_the_output
# Keeps the output itself, which an in-place ReLU overwrites: negative numbers that differ are lost.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name].cpu(), theirs[name].cpu(), rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: not_moved
# Compares tensors on two devices.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: the_part_itself
# Returns the module, and not its name.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return whole.get_submodule(name)
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return whole.get_submodule(name)
    return None


# %% wrong: sums_compared
# Compares the sums of the outputs, in which differences can cancel.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if abs(mine[name].sum() - theirs[name].sum()) > 1e-2:
            return name
    return None


# %% wrong: every_part_in_the_order_of_the_calls
# Compares groups as well as leaves, so it names a group that changes what its last leaf gave.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            def note(part, inputs, output, name=name):
                seen[name] = output.detach().cpu().clone()
            handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if not torch.allclose(mine[name], theirs[name], rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: mean_of_the_difference
# Compares by the mean of the differences, in which one wrong sample of many is not seen.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape:
            return name
        if (mine[name] - theirs[name]).abs().mean() > 1e-4:
            return name
    return None


# %% wrong: absolute_tolerance_only
# Compares with one tolerance for small and large numbers.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):
                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()
                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        if mine[name].shape != theirs[name].shape or (mine[name] - theirs[name]).abs().max() > 1e-4:
            return name
    return None


# %% right: lists_of_pairs
# Writes pairs of name and output down, and goes through both lists at once.

def run_and_note(model, x):
    notes = []
    hooks = []
    for name, module in model.named_modules():
        if len(list(module.children())) == 0:
            hooks.append(
                module.register_forward_hook(lambda m, i, o, name=name: notes.append((name, o.cpu().detach().clone())))
            )
    model(x)
    for h in hooks:
        h.remove()
    return notes


def first_difference(whole, split, x):
    for (name, a), (_, b) in zip(run_and_note(whole, x), run_and_note(split, x)):
        if a.shape != b.shape or not torch.allclose(a, b, rtol=1e-3, atol=1e-4):
            return name


# %% right: numpy
# Takes the outputs as arrays.

import numpy as np


def first_difference(whole, split, x):
    records = []
    for model in (whole, split):
        record, handles = {}, []
        leaves = [(n, m) for n, m in model.named_modules() if next(m.children(), None) is None]
        for n, m in leaves:
            def hook(m, args, out, n=n, record=record):
                record[n] = np.array(out.detach().cpu())
            handles.append(m.register_forward_hook(hook))
        try:
            model(x)
        finally:
            for h in handles:
                h.remove()
        records.append(record)
    right, found = records
    different = (n for n in right if right[n].shape != found[n].shape or not np.allclose(found[n], right[n], 1e-3, 1e-4))
    return next(different, None)


# %% right: two_copies
# Works on deep copies, so there is nothing to clean up.

def first_difference(whole, split, x):
    def watch(model):
        model = copy.deepcopy(model)
        order, values = [], {}
        for name, part in model.named_modules():
            if not any(True for _ in part.children()):
                def save(part, given, result, name=name):
                    order.append(name)
                    values[name] = result.to("cpu", copy=True).detach()
                part.register_forward_hook(save)
        model(x)
        return order, values

    order, a = watch(whole)
    _, b = watch(split)
    for name in order:
        if a[name].shape != b[name].shape:
            return name
        if ((a[name] - b[name]).abs() > 1e-4 + 1e-3 * a[name].abs()).any():
            return name
    return None


# %% right: the_largest_difference
# Looks at the largest excess over the tolerance, and compares while the second model runs.

def first_difference(whole, split, x):
    leaves = {}
    for name, module in whole.named_modules():
        if not module._modules:
            leaves[name] = module
    right, found, hooks = {}, [], []

    def keep(name):
        def hook(_, __, output):
            right[name] = output.detach().clone()
        return hook

    def compare(name):
        def hook(_, __, output):
            a, b = output.detach().to("cpu", copy=True), right[name]
            if a.size() != b.size() or torch.max((a - b).abs() - 1e-3 * b.abs()) > 1e-4:
                found.append(name)
        return hook

    for name, module in leaves.items():
        hooks.append(module.register_forward_hook(keep(name)))
        hooks.append(split.get_submodule(name).register_forward_hook(compare(name)))
    try:
        whole(x)
        split(x)
    finally:
        [hook.remove() for hook in hooks]
    return found[0] if found else None


# %% wrong: numbers_in_one_row
# Compares the flattened numbers, so that another shape with the same numbers is no difference.

def first_difference(whole, split, x):
    def outputs(model):
        kept = {}
        leaves = [(name, part) for name, part in model.named_modules() if not list(part.children())]
        hooks = [
            part.register_forward_hook(lambda _, __, output, name=name: kept.update({name: output.cpu().clone()}))
            for name, part in leaves
        ]
        try:
            with torch.no_grad():
                model(x)
        finally:
            for hook in hooks:
                hook.remove()
        return kept

    theirs, mine = outputs(whole), outputs(split)
    for name, right in theirs.items():
        one, other = right.flatten(), mine[name].flatten()
        if len(one) != len(other) or not torch.allclose(one, other, rtol=1e-3, atol=1e-4):
            return name
    return None


# %% wrong: last_rows_only
# Compares the last hundred samples, as if these spoke for the others.

def first_difference(whole, split, x):
    def outputs_of(model):
        seen, handles = {}, []
        for name, part in model.named_modules():
            if not list(part.children()):

                def note(part, inputs, output, name=name):
                    seen[name] = output.detach().cpu().clone()

                handles.append(part.register_forward_hook(note))
        with torch.no_grad():
            model(x)
        for handle in handles:
            handle.remove()
        return seen

    mine, theirs = outputs_of(split), outputs_of(whole)
    for name in theirs:
        same_shape = mine[name].shape == theirs[name].shape
        if not same_shape or not torch.allclose(mine[name][-100:], theirs[name][-100:], rtol=1e-3, atol=1e-4):
            return name
    return None
