# %% wrong: subtracts_across_devices
# Thinks that gradients of two devices can be subtracted.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine - right).norm() / right.cpu().norm()).item()
    return differences


# %% wrong: target_not_moved
# Leaves the target on the CPU.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm()).item()
    return differences


# %% wrong: old_gradients
# Thinks that backward() begins with empty gradients.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm()).item()
    return differences


# %% wrong: none_is_equal
# Takes a missing gradient for 0 difference.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = 0.0
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm()).item()
    return differences


# %% wrong: none_left_out
# Leaves out what has no gradient.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is not None:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm()).item()
    return differences


# %% wrong: forgets_none
# Thinks that each parameter has a gradient.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm()).item()
    return differences


# %% wrong: absolute
# Does not divide by the size of the gradient.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm()).item()
    return differences


# %% wrong: share_of_the_split
# Divides by the gradient that may be wrong.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / mine.cpu().norm()).item()
    return differences


# %% wrong: tensors
# Returns tensors.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.grad for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm())
    return differences


# %% wrong: compares_weights
# Compares the weights and not their gradients.

import math


def gradient_differences(whole, split, loss_fn, x, y):
    gradients = []
    for model in (whole, split):
        model.zero_grad()
        output = model(x)
        loss_fn(output, y.to(output.device)).backward()
        gradients.append({name: p.detach() for name, p in model.named_parameters()})
    differences = {}
    for name, right in gradients[0].items():
        mine = gradients[1][name]
        if mine is None:
            differences[name] = math.inf
        else:
            differences[name] = ((mine.cpu() - right.cpu()).norm() / right.cpu().norm()).item()
    return differences


# %% right: by_zip
# Goes through both models' parameters side by side.

def gradient_differences(whole, split, loss_fn, x, y):
    for model in (whole, split):
        for parameter in model.parameters():
            parameter.grad = None
        prediction = model(x)
        loss_fn(prediction, y.to(prediction.device)).backward()
    found = {}
    for (name, one), other in zip(whole.named_parameters(), split.parameters(), strict=True):
        if other.grad is None:
            found[name] = float("inf")
            continue
        right, mine = one.grad, other.grad.to(one.device)
        found[name] = float(torch.linalg.vector_norm(mine - right) / torch.linalg.vector_norm(right))
    return found


# %% right: by_autograd
# Asks torch.autograd.grad, which leaves .grad alone.

def gradient_differences(whole, split, loss_fn, x, y):
    def gradients(model):
        output = model(x)
        loss = loss_fn(output, y.to(output.device))
        names, parameters = zip(*model.named_parameters())
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        return {name: g if g is None else g.cpu() for name, g in zip(names, found)}

    right, mine = gradients(whole), gradients(split)
    none = {name for name, g in mine.items() if g is None}
    return {n: float("inf") if n in none else ((mine[n] - g).norm() / g.norm()).item() for n, g in right.items()}
