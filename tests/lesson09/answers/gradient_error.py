# %% wrong: never_cleared
# Forgets that backward() adds.

def gradient_error(parameters, step, reference):
    found = []
    for run in (reference, step):
        run()
        found.append(torch.cat([p.grad.cpu().flatten() for p in parameters]))
    return ((found[1] - found[0]).norm() / found[0].norm()).item()


# %% wrong: cleared_once
# Clears before the first run only.

def gradient_error(parameters, step, reference):
    for p in parameters:
        p.grad = None
    reference()
    right = torch.cat([p.grad.cpu().flatten() for p in parameters])
    step()
    found = torch.cat([p.grad.cpu().flatten() for p in parameters])
    return ((found - right).norm() / right.norm()).item()


# %% wrong: cleared_between
# Clears between the runs, and not before the first.

def gradient_error(parameters, step, reference):
    reference()
    right = torch.cat([p.grad.cpu().flatten() for p in parameters])
    for p in parameters:
        p.grad = None
    step()
    found = torch.cat([p.grad.cpu().flatten() for p in parameters])
    return ((found - right).norm() / right.norm()).item()


# %% wrong: same_tensors
# Keeps the gradients themselves and zeroes them in place.

def gradient_error(parameters, step, reference):
    found = []
    for run in (reference, step):
        for p in parameters:
            if p.grad is not None:
                p.grad.zero_()
        run()
        found.append([p.grad for p in parameters])
    right, mine = (torch.cat([g.cpu() for g in grads]) for grads in found)
    return ((mine - right).norm() / right.norm()).item()


# %% wrong: absolute
# Returns the norm of the difference.

def gradient_error(parameters, step, reference):
    found = []
    for run in (reference, step):
        for p in parameters:
            p.grad = None
        run()
        found.append(torch.cat([p.grad.cpu().flatten() for p in parameters]))
    return (found[1] - found[0]).norm().item()


# %% wrong: relative_to_the_step
# Mixes up which gradients are right.

def gradient_error(parameters, step, reference):
    found = []
    for run in (step, reference):
        for p in parameters:
            p.grad = None
        run()
        found.append(torch.cat([p.grad.cpu().flatten() for p in parameters]))
    return ((found[1] - found[0]).norm() / found[0].norm()).item()


# %% wrong: difference_of_norms
# Compares how large the gradients are.

def gradient_error(parameters, step, reference):
    norms = []
    for run in (reference, step):
        for p in parameters:
            p.grad = None
        run()
        norms.append(torch.cat([p.grad.cpu().flatten() for p in parameters]).norm())
    return (abs(norms[1] - norms[0]) / norms[0]).item()


# %% wrong: mean_over_parameters
# Averages the errors of the parameters.

def gradient_error(parameters, step, reference):
    found = []
    for run in (reference, step):
        for p in parameters:
            p.grad = None
        run()
        found.append([p.grad.cpu() for p in parameters])
    errors = [(mine - right).norm() / right.norm() for right, mine in zip(*found)]
    return (sum(errors) / len(errors)).item()


# %% wrong: two_devices_at_once
# Joins tensors of two devices.

def gradient_error(parameters, step, reference):
    found = []
    for run in (reference, step):
        for p in parameters:
            p.grad = None
        run()
        found.append(torch.cat([p.grad.flatten() for p in parameters]))
    return ((found[1] - found[0]).norm() / found[0].norm()).item()


# %% right: sums_of_squares
# Sums squares over parameters, and zeroes in place.

def gradient_error(parameters, step, reference):
    def gradients(run):
        for p in parameters:
            if p.grad is not None:
                p.grad.zero_()
        run()
        return [p.grad.detach().cpu().clone() for p in parameters]

    mine, right = gradients(step), gradients(reference)
    off = sum((a - b).square().sum() for a, b in zip(mine, right))
    return torch.sqrt(off / sum(b.square().sum() for b in right))
