# %% wrong: detached
# Detaches between the stages, so the first stage gets no gradient.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        hidden = model.part0(samples.to(model.device0))
        output = model.part1(hidden.detach().to(model.device1))
        loss = loss_fn(output, target.to(model.device1)) * len(samples) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: divides_by_full_sizes
# Weighs each loss by size over the samples, also that of the smaller last one.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    loss = 0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss + loss_fn(model(samples), target.to(model.device1)) * min(size, len(x)) / len(x)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: last_only
# Goes backward after the loop, through the loss of the last micro-batch only.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target.to(model.device1))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: loss_of_the_last
# Trains rightly, and returns the weighted loss of the last micro-batch.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target.to(model.device1)) * len(samples) / len(x)
        loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: mean_of_means
# Divides by the number of micro-batches, so the samples of a smaller last one count more.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    pieces = list(zip(x.split(size), y.split(size)))
    loss = sum(loss_fn(model(samples), target.to(model.device1)) for samples, target in pieces) / len(pieces)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: outputs_in_the_wrong_order
# Joins the outputs newest first, so they meet the targets of other samples.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    outputs = []
    for samples in x.split(size):
        outputs.insert(0, model(samples))
    loss = loss_fn(torch.cat(outputs), y.to(model.device1))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: returns_the_tensor
# Returns the loss as a tensor.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    loss = 0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss + loss_fn(model(samples), target.to(model.device1)) * len(samples) / len(x)
    loss.backward()
    optimizer.step()
    return loss


# %% wrong: step_per_micro_batch
# Updates after each micro-batch: that is training with small batches.

def train_step(model, optimizer, loss_fn, x, y, size):
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        optimizer.zero_grad()
        loss = loss_fn(model(samples), target.to(model.device1))
        loss.backward()
        optimizer.step()
        total += loss.item() * len(samples) / len(x)
    return total


# %% wrong: target_of_the_first_rows
# Cuts the batch and forgets to cut the targets: each micro-batch gets the first ones.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for samples in x.split(size):
        target = y[: len(samples)].to(model.device1)
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: targets_on_the_cpu
# Leaves the targets on the CPU.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target) * len(samples) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: unscaled
# Adds up the mean losses of the micro-batches, so the gradients are too large.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target.to(model.device1))
        loss.backward()
        total += loss.detach() * len(samples) / len(x)
    optimizer.step()
    return total.item()


# %% wrong: whole_batch
# Does not cut the batch at all.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    loss = loss_fn(model(x), y.to(model.device1))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: zero_grad_forgotten
# Never clears the gradients that are there from earlier.

def train_step(model, optimizer, loss_fn, x, y, size):
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target.to(model.device1)) * len(samples) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: zero_grad_in_the_loop
# Clears the gradients before each micro-batch, so only those of the last are left.

def train_step(model, optimizer, loss_fn, x, y, size):
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        optimizer.zero_grad()
        loss = loss_fn(model(samples), target.to(model.device1)) * len(samples) / len(x)
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% right: backward_later
# Keeps the losses, and goes backward through one after the other when all are there.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    losses = [
        loss_fn(model(samples), target.to(model.device1)) * len(samples) / len(x)
        for samples, target in zip(x.split(size), y.split(size))
    ]
    for loss in reversed(losses):
        loss.backward()
    optimizer.step()
    return sum(loss.item() for loss in losses)


# %% right: closure
# Gives the optimizer a closure that computes the loss and the gradients.

def train_step(model, optimizer, loss_fn, x, y, size):
    def closure():
        optimizer.zero_grad()
        total = 0.0
        for samples, target in zip(x.split(size), y.split(size), strict=True):
            output = model(samples)
            loss = loss_fn(output, target.to(output.device)) * len(samples) / len(x)
            loss.backward()
            total = total + loss.detach()
        return total

    return optimizer.step(closure).item()


# %% right: gradients_divided
# Adds up the losses times their samples, and divides the gradients in the end.

def train_step(model, optimizer, loss_fn, x, y, size):
    for parameter in model.parameters():
        parameter.grad = None
    total = 0.0
    for start in range(0, len(x), size):
        samples, target = x[start : start + size], y[start : start + size]
        loss = loss_fn(model.part1(model.part0(samples.to(model.device0)).to(model.device1)), target.to(model.device1))
        (loss * len(samples)).backward()
        total += loss.item() * len(samples)
    for parameter in model.parameters():
        parameter.grad /= len(x)
    optimizer.step()
    return total / len(x)


# %% right: joined_outputs
# Joins the outputs, so one loss over all samples needs no weights.

def train_step(model, optimizer, loss_fn, x, y, size):
    outputs = torch.cat([model(samples) for samples in x.split(size)])
    loss = loss_fn(outputs, y.to(outputs.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss)


# %% right: one_by_one
# Goes backward after each micro-batch: no pipeline, and the same update.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    total = 0.0
    for samples, target in zip(x.split(size), y.split(size)):
        loss = loss_fn(model(samples), target.to(model.device1)) * (len(samples) / len(x))
        loss.backward()
        total += loss.item()
    optimizer.step()
    return total


# %% wrong: target_like_the_output
# Makes the targets like the output, in their dtype too, so that class numbers become fractions.

def train_step(model, optimizer, loss_fn, x, y, size):
    optimizer.zero_grad()
    losses = []
    for samples, target in zip(x.split(size), y.split(size), strict=True):
        output = model(samples)
        losses.append(loss_fn(output, target.to(output)) * len(samples) / len(x))
    mean_loss = sum(losses)
    mean_loss.backward()
    optimizer.step()
    return mean_loss.item()
