# %% wrong: reduces_each_time
# A plain loop over DDP.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad()
    for x, y in micro_batches:
        (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: never_reduces
# no_sync around all of them.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    optimizer.zero_grad()
    with model.no_sync():
        for x, y in micro_batches:
            (loss_fn(model(x), y) / len(micro_batches)).backward()
    optimizer.step()


# %% wrong: forward_outside
# no_sync around the backward pass alone.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    from contextlib import nullcontext

    optimizer.zero_grad()
    for number, (x, y) in enumerate(micro_batches):
        loss = loss_fn(model(x), y) / len(micro_batches)
        with nullcontext() if number == len(micro_batches) - 1 else model.no_sync():
            loss.backward()
    optimizer.step()


# %% wrong: the_sum_of_losses
# The gradient is as many times too large.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    *others, (last_x, last_y) = micro_batches
    optimizer.zero_grad()
    with model.no_sync():
        for x, y in others:
            loss = loss_fn(model(x), y)
            loss.backward()
    loss = loss_fn(model(last_x), last_y)
    loss.backward()
    optimizer.step()


# %% wrong: clears_each_time
# Only the last micro-batch counts.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    *others, (last_x, last_y) = micro_batches
    optimizer.zero_grad()
    with model.no_sync():
        for x, y in others:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
    optimizer.zero_grad()
    loss = loss_fn(model(last_x), last_y) / len(micro_batches)
    loss.backward()
    optimizer.step()


# %% wrong: never_clears
# The next step has these gradients too.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    *others, (last_x, last_y) = micro_batches
    with model.no_sync():
        for x, y in others:
            loss = loss_fn(model(x), y) / len(micro_batches)
            loss.backward()
    loss = loss_fn(model(last_x), last_y) / len(micro_batches)
    loss.backward()
    optimizer.step()


# %% right: a_context_for_each
# Chooses the context by the number.


def one_sync_step(model, optimizer, micro_batches, loss_fn):
    from contextlib import nullcontext

    count = len(micro_batches)
    for number, (x, y) in enumerate(micro_batches, 1):
        with nullcontext() if number == count else model.no_sync():
            loss_fn(model(x), y).div(count).backward()
    optimizer.step()
    optimizer.zero_grad()
