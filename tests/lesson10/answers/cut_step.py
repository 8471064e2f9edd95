# %% wrong: one_graph
# Copies with the graph, so that one backward pass goes through both parts.

def cut_step(part0, part1, x, target, loss_fn):
    loss = loss_fn(part1(part0(x).to(target.device)), target)
    loss.backward()
    return loss


# %% wrong: only_detached
# Detaches, and forgets that the copy has to want a gradient.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().to(target.device)
    loss = loss_fn(part1(received), target)
    loss.backward()
    if received.grad is not None:
        hidden.backward(received.grad.to(hidden.device))
    return loss


# %% wrong: requires_grad_before_the_copy
# Calls requires_grad_() before the copy, which then is no beginning of a graph.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().requires_grad_().to(target.device)
    loss = loss_fn(part1(received), target)
    loss.backward()
    return loss


# %% wrong: nothing_carried
# Thinks that loss.backward() finds its way over the cut.

def cut_step(part0, part1, x, target, loss_fn):
    received = part0(x).detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    return loss


# %% wrong: backward_without_a_gradient
# Calls backward() of a tensor that is no scalar.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    hidden.backward()
    return loss


# %% wrong: ones
# Goes on with ones, as backward() does from a scalar.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    hidden.backward(torch.ones_like(hidden))
    return loss


# %% wrong: values_for_the_gradient
# Passes the values that were received instead of their gradient.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    hidden.backward(received.detach().to(hidden.device))
    return loss


# %% wrong: not_carried_to_the_device
# Passes the gradient on from the other device.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    hidden.backward(received.grad)
    return loss


# %% wrong: zeroes
# Clears the gradients that are there.

def cut_step(part0, part1, x, target, loss_fn):
    part0.zero_grad()
    part1.zero_grad()
    hidden = part0(x)
    received = hidden.detach().to(target.device).requires_grad_()
    loss = loss_fn(part1(received), target)
    loss.backward()
    hidden.backward(received.grad.to(hidden.device))
    return loss


# %% wrong: no_loss
# Returns nothing.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = hidden.detach().to(target.device).requires_grad_()
    loss_fn(part1(received), target).backward()
    hidden.backward(received.grad.to(hidden.device))


# %% right: by_autograd_grad
# Asks for the gradient at the cut along with those of part1, and adds them itself.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    with torch.no_grad():
        received = hidden.to(target.device, copy=True)
    received.requires_grad_(True)
    loss = loss_fn(part1(received), target)
    weights = list(part1.parameters())
    gradient, *others = torch.autograd.grad(loss, [received, *weights])
    for weight, other in zip(weights, others):
        weight.grad = other if weight.grad is None else weight.grad + other
    torch.autograd.backward(hidden, gradient.to(x.device))
    return loss.item()


# %% right: the_sum_as_a_scalar
# Makes a scalar whose gradient is the one to pass on.

def cut_step(part0, part1, x, target, loss_fn):
    hidden = part0(x)
    received = nn.Parameter(hidden.detach().to(target.device))
    loss = loss_fn(part1(received), target)
    loss.backward()
    (hidden * received.grad.to(hidden.device)).sum().backward()
    return loss.detach()
