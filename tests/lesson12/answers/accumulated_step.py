# %% wrong: always_reduced
# Adds up, and reduces after every micro-batch.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        model.set_reshard_after_backward(last or not keep_weights)
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: always_once
# Reduces once, whatever the caller asks for.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        model.set_requires_gradient_sync(last)
        model.set_reshard_after_backward(last or not keep_weights)
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: loss_not_divided
# Sums the mean losses of the micro-batches.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        model.set_requires_gradient_sync(last or not reduce_once)
        model.set_reshard_after_backward(last or not keep_weights)
        loss_fn(model(x), y).backward()
    optimizer.step()


# %% wrong: never_reduced
# Switches the reduce-scatter off, and never on again.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    model.set_requires_gradient_sync(not reduce_once)
    for number, (x, y) in enumerate(micro_batches):
        model.set_reshard_after_backward(number == len(micro_batches) - 1 or not keep_weights)
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: stale_weights
# Never frees the gathered weights: the second step computes with those that the first step gathered.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    model.set_reshard_after_backward(not keep_weights)
    for number, (x, y) in enumerate(micro_batches):
        model.set_requires_gradient_sync(number == len(micro_batches) - 1 or not reduce_once)
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: weights_never_kept
# Knows one switch only.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        model.set_requires_gradient_sync(number == len(micro_batches) - 1 or not reduce_once)
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: cleared_each_time
# Clears the gradients before each micro-batch, so that the last one alone counts.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    for number, (x, y) in enumerate(micro_batches):
        last = number == len(micro_batches) - 1
        model.set_requires_gradient_sync(last or not reduce_once)
        model.set_reshard_after_backward(last or not keep_weights)
        optimizer.zero_grad()
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% right: last_one_apart
# All but the last with the switches as asked, then the last.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    import torch

    def backward(x, y):
        torch.autograd.backward(loss_fn(model(x), y) / len(micro_batches))

    *early, last = micro_batches
    model.set_requires_gradient_sync(not reduce_once)
    model.set_reshard_after_backward(not keep_weights)
    for x, y in early:
        backward(x, y)
    model.set_requires_gradient_sync(True)
    model.set_reshard_after_backward(True)
    backward(*last)
    optimizer.step()
    for p in model.parameters():
        p.grad = None


# %% right: waits_once
# As PyTorch's docstring advises: only the last backward pass waits for reductions.


def accumulated_step(model, optimizer, micro_batches, loss_fn, reduce_once, keep_weights):
    left = len(micro_batches)
    for x, y in micro_batches:
        left -= 1
        model.set_is_last_backward(left == 0)
        model.set_requires_gradient_sync(left == 0 or not reduce_once)
        model.set_reshard_after_backward(not keep_weights or left == 0)
        loss = loss_fn(model(x), y)
        loss.div(len(micro_batches)).backward()
    optimizer.step()
    optimizer.zero_grad()
