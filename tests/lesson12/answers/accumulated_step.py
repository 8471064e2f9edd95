# %% wrong: always_reduced
# Adds up, and reduces after every micro-batch.


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    from torch import nn

    optimizer.zero_grad()
    for x, y in micro_batches:
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


# %% wrong: loss_not_divided
# Sums the mean losses of the micro-batches.


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    from torch import nn

    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        model.set_requires_gradient_sync(number == len(micro_batches) - 1)
        loss_fn(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


# %% wrong: never_reduced
# Switches the reduce-scatter off, and never on again.


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    from torch import nn

    optimizer.zero_grad()
    model.set_requires_gradient_sync(False)
    for x, y in micro_batches:
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


# %% wrong: clipped_in_the_loop
# Clips after each micro-batch.


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    from torch import nn

    optimizer.zero_grad()
    for x, y in micro_batches:
        (loss_fn(model(x), y) / len(micro_batches)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()


# %% wrong: not_clipped
# Leaves max_norm alone.


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        model.set_requires_gradient_sync(number == len(micro_batches) - 1)
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% right: last_one_apart
# All but the last without sync, then the last.


def accumulated_step(model, optimizer, micro_batches, loss_fn, max_norm):
    import torch

    def backward(x, y):
        torch.autograd.backward(loss_fn(model(x), y) / len(micro_batches))

    for p in model.parameters():
        p.grad = None
    *early, last = micro_batches
    model.set_requires_gradient_sync(False)
    for x, y in early:
        backward(x, y)
    model.set_requires_gradient_sync(True)
    backward(*last)
    torch.nn.utils.clip_grad_norm_(list(model.parameters()), max_norm)
    optimizer.step()
