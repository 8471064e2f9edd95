# %% wrong: target_not_moved
# Thinks that the loss fetches its target, as the model fetches its input.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


# %% wrong: output_to_target
# Moves the output to the target, so that its gradient has to travel back.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output.to(y.device), y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


# %% wrong: first_optimizer_only
# Takes one optimizer for all there are.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizers[0].zero_grad()
    loss.backward()
    optimizers[0].step()
    return loss.item()


# %% wrong: zero_grad_forgotten
# Thinks that backward() begins with empty gradients.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


# %% wrong: zeroed_after_backward
# Empties the gradients when they have just been made.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    for optimizer in optimizers:
        optimizer.zero_grad()
        optimizer.step()
    return loss.item()


# %% wrong: returns_a_tensor
# Returns the tensor, with its graph.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss


# %% wrong: device1_of_the_lesson
# Moves the target to the notebook's device1, whatever the model is.

def train_step(model, optimizers, loss_fn, x, y):
    device1 = torch.device("simgpu:1")
    output = model(x)
    loss = loss_fn(output, y.to(device1))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


# %% right: zero_first
# Empties the gradients first, and unpacks in one line.

def train_step(model, optimizers, loss_fn, x, y):
    [each.zero_grad() for each in optimizers]
    prediction = model(x)
    y = y.to(prediction.device)
    loss = loss_fn(prediction, y)
    loss.backward()
    [each.step() for each in optimizers]
    return float(loss)


# %% right: model_zero_grad
# Lets the model empty its gradients.

def train_step(model, optimizers, loss_fn, x, y):
    model.zero_grad()
    output = model(x)
    loss = loss_fn(output, y.to(output.device, non_blocking=True))
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(f"loss {loss.item():.3f}")
    return loss.detach().cpu().item()


# %% wrong: zeroes_last
# Zeroes at the end, for the next step: what was there before the first one counts.

def train_step(model, optimizers, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()
