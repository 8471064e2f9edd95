# %% wrong: as_it_was
# Leaves the loop as it was given.

def overlapping(model, loss_fn, x, y, size):
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        loss.backward()
        total += loss.item()
        print("loss so far", total)
    return total


# %% wrong: item_kept
# Takes backward out of the loop, and keeps .item() in it.

def overlapping(model, loss_fn, x, y, size):
    losses, total = [], 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        losses.append(loss)
        total += loss.item()
    sum(losses).backward()
    return total


# %% wrong: last_only
# Goes backward after the loop, through the last loss only.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        losses.append(loss.detach())
    loss.backward()
    return sum(losses).item()


# %% wrong: mean_of_means
# Loses the weights while rewriting, and takes the mean of the losses.

def overlapping(model, loss_fn, x, y, size):
    losses = [loss_fn(model(samples), target) for samples, target in zip(x.split(size), y.split(size))]
    total = torch.stack(losses).mean()
    total.backward()
    return total.item()


# %% wrong: no_item_only
# Takes .item() and print out of the loop, and leaves backward in it.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        loss.backward()
        losses.append(loss.detach())
    return sum(losses).item()


# %% wrong: one_device
# Moves the model to one device, where nothing has to wait for another.

def overlapping(model, loss_fn, x, y, size):
    model.to(model.device1)
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        output = model.part1(model.part0(samples.to(model.device1)))
        losses.append(loss_fn(output, target) * len(samples) / len(x))
    total = sum(losses)
    total.backward()
    return total.item()


# %% wrong: still_prints
# Thinks that printing a tensor needs no value.

def overlapping(model, loss_fn, x, y, size):
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        total = total + loss_fn(model(samples), target) * len(samples) / len(x)
        print("loss so far", total)
    total.backward()
    return total.item()


# %% wrong: stops_on_nan
# Looks in each turn whether the loss is a number: an if waits too.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        if torch.isnan(loss):
            raise ValueError("the loss is not a number")
        losses.append(loss)
    total = sum(losses)
    total.backward()
    return total.item()


# %% wrong: synchronises
# Waits for both devices in each turn, as a timer does.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        losses.append(loss_fn(model(samples), target) * len(samples) / len(x))
        for device in (model.device0, model.device1):
            torch.get_device_module(device).synchronize(device)
    total = sum(losses)
    total.backward()
    return total.item()


# %% wrong: through_the_cpu
# Sends what is between the stages through the CPU, which waits for it.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        hidden = model.part0(samples).cpu().to(model.device1)
        losses.append(loss_fn(model.part1(hidden), target) * len(samples) / len(x))
    total = sum(losses)
    total.backward()
    return total.item()


# %% wrong: whole_batch
# Gives up micro-batches: without them nothing can wait in between.

def overlapping(model, loss_fn, x, y, size):
    loss = loss_fn(model(x), y)
    loss.backward()
    return loss.item()


# %% wrong: second_part_at_once
# Sends micro-batches through the first stage only, and the joined result through the second at once.

def overlapping(model, loss_fn, x, y, size):
    hidden = [model.part0(samples).to(model.device1) for samples in x.split(size)]
    loss = loss_fn(model.part1(torch.cat(hidden)), y)
    loss.backward()
    return loss.item()


# %% wrong: stage_by_stage
# Sends all micro-batches through the first stage, and then all through the second.

def overlapping(model, loss_fn, x, y, size):
    hidden = [model.part0(samples).to(model.device1) for samples in x.split(size)]
    losses = [loss_fn(model.part1(h), target) * len(h) / len(x) for h, target in zip(hidden, y.split(size))]
    torch.autograd.backward(losses)
    return sum(loss.item() for loss in losses)


# %% wrong: mean_squares_only
# Computes the loss of the notebook's example, and not loss_fn.

def overlapping(model, loss_fn, x, y, size):
    outputs = torch.cat([model(samples) for samples in x.split(size)])
    loss = nn.functional.mse_loss(outputs, y)
    loss.backward()
    return loss.item()


# %% right: backward_one_by_one
# All forward passes, then a backward pass for each, the newest first.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        losses.append(loss_fn(model(samples), target) * len(samples) / len(x))
    for loss in reversed(losses):
        loss.backward()
    return torch.stack(losses).sum().item()


# %% right: joined_outputs
# Joins the outputs and takes one loss.

def overlapping(model, loss_fn, x, y, size):
    output = torch.cat([model(samples) for samples in x.split(size)])
    loss = loss_fn(output, y)
    loss.backward()
    return loss.item()


# %% right: prints_at_the_end
# Prints every loss, when all are launched.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        hidden = model.part0(samples).to(model.device1)
        losses.append(loss_fn(model.part1(hidden), target) * len(samples) / len(x))
    torch.autograd.backward(losses)
    for number, loss in enumerate(losses):
        print("loss", number, loss.item())
    return float(sum(losses))


# %% right: part_by_part
# Calls the stages themselves, and stacks the losses.

def overlapping(model, loss_fn, x, y, size):
    batches = list(zip(torch.split(x, size), torch.split(y, size)))
    losses = []
    for samples, target in batches:
        crossing = model.part0(samples).to(model.device1)
        losses.append(loss_fn(model.part1(crossing), target).mul(samples.shape[0] / x.shape[0]))
    loss = torch.stack(losses).sum()
    loss.backward()
    return float(loss)


# %% wrong: sum_on_the_notebooks_device1
# Begins the sum of the losses on the device1 of the notebook, where the model ended in the trials.

def overlapping(model, loss_fn, x, y, size):
    losses = [torch.zeros((), device=device1)]
    for samples, target in zip(x.split(size), y.split(size), strict=True):
        losses.append(loss_fn(model(samples), target) * len(samples) / len(x))
    total = sum(losses)
    total.backward()
    return total.item()


# %% wrong: losses_to_the_notebooks_device1
# Collects the losses on the device1 of the notebook. Where that is the first device, each copy to it holds up the next
# micro-batch.

def overlapping(model, loss_fn, x, y, size):
    losses = []
    for samples, target in zip(x.split(size), y.split(size), strict=True):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        losses.append(loss.to(device1))
    total = sum(losses)
    total.backward()
    return total.item()
