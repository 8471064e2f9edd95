# %% wrong: as_it_was
# Leaves the loop as it was given.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if loss < best:
            best = loss.item()
        print("loss", loss)
    return losses, best


# %% wrong: comparison_kept
# Keeps the comparison: an if waits too.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if loss < best:
            best = loss.detach()
    return torch.stack(losses).tolist(), float(best)


# %% wrong: forgets_zero_grad
# Loses zero_grad while rewriting, so gradients add up.

def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% wrong: item_under_another_name
# Thinks that float(loss) is not .item().

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses, min(losses)


# %% wrong: last_for_best
# Returns the last loss as the best.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, losses[-1]


# %% wrong: losses_only
# Returns the losses and forgets the best.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


# %% wrong: min_waits
# Uses Python's min on tensors: it compares, so it waits.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], None
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        best = loss.detach() if best is None else min(best, loss.detach())
    return [loss.item() for loss in losses], best.item()


# %% wrong: one_backward_at_the_end
# Adds the losses up and goes backward once: other steps.

def train(model, loss_fn, optimizer, batches):
    optimizer.zero_grad()
    losses = [loss_fn(model(inputs), targets) for inputs, targets in batches]
    sum(losses).backward()
    optimizer.step()
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% wrong: prints_now_and_then
# Prints every second step only.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if len(losses) % 2 == 0:
            print("loss", loss.item())
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% wrong: read_before_they_came
# Copies without waiting, and reads what has not arrived: on a real GPU that is any number.

def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().to("cpu", non_blocking=True))
    losses = [loss.item() for loss in losses]
    return losses, min(losses)


# %% wrong: returns_tensors
# Never turns the losses into floats.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses, torch.stack(losses).min()


# %% wrong: still_prints
# Collects the losses, and still prints each.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        print("loss", losses[-1])
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% wrong: synchronises_each_step
# Puts a synchronize into the loop, to be sure.

from utils.observe.devices import synchronize


def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        synchronize(loss.device)
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% wrong: to_the_cpu
# Takes the loss to the CPU at once, and reads it later.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
    losses = [loss.item() for loss in losses]
    return losses, min(losses)


# %% wrong: zero_grad_at_the_end
# Thinks that it is the same to clear the gradients after the step: those from before the call are in the first step.

def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% wrong: progress_now_and_then
# Prints the loss of every tenth step only: a rare wait is a wait.

def train(model, loss_fn, optimizer, batches):
    losses = []
    for number, (inputs, targets) in enumerate(batches, 1):
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        if number % 10 == 0:
            print(f"step {number}: loss {losses[-1].item():.4f}")
    losses = torch.stack(losses).tolist()
    return losses, min(losses)


# %% right: best_on_the_device
# Finds the smallest on the device, with torch.minimum, and moves all in one copy.

def train(model, loss_fn, optimizer, batches):
    kept, best = [], None
    for inputs, targets in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        loss = loss.detach().clone()
        best = loss if best is None else torch.minimum(best, loss)
        kept.append(loss)
    *losses, best = torch.stack([*kept, best]).cpu().numpy().tolist()
    return losses, best


# %% right: copies_waited_for
# Copies without waiting, and waits for all copies before it reads.

def train(model, loss_fn, optimizer, batches):
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().to("cpu", non_blocking=True))
    torch.get_device_module(loss.device).synchronize(loss.device)
    losses = [loss.item() for loss in losses]
    return losses, min(losses)


# %% right: generator_of_steps
# One step as a function, a comprehension for the loop, and a warning.

import warnings


def train(model, loss_fn, optimizer, batches):
    def step(inputs, targets):
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        return loss.detach()

    kept = [step(*batch) for batch in batches]
    if len(kept) < 2:
        warnings.warn("one batch only", stacklevel=2)
    return [float(loss) for loss in kept], float(min(kept))


# %% right: item_after_the_loop
# Keeps the losses with their graph and asks each for its number after the loop.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], float("inf")
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss)
        print("step", len(losses), "launched")
    losses = [loss.item() for loss in losses]
    return losses, min(losses)


# %% right: written_into_one_tensor
# Writes each loss into a tensor that was made before the loop.

def train(model, loss_fn, optimizer, batches):
    device = batches[0][1].device
    found = torch.zeros(len(batches), device=device)
    for step, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        found[step] = loss.detach()
        optimizer.step()
    found = [float(value) for value in found.cpu()]
    return found, min(found)


# %% wrong: best_on_the_notebooks_device1
# Keeps the smallest loss on the device1 of the notebook, where the losses were in the trials.

def train(model, loss_fn, optimizer, batches):
    losses, best = [], torch.tensor(float("inf"), device=device1)
    for inputs, targets in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(inputs), targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
        best = torch.minimum(best, loss.detach())
    losses = torch.stack(losses).tolist()
    return losses, best.item()
