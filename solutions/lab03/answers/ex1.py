# %% wrong: clipped_each_device_alone
# Thinks that a norm is that of one device, and clips what each optimizer holds by itself.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norms = []
    for optimizer in optimizers:
        norms.append(nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm).item())
        optimizer.step()
    return loss.item(), sum(n**2 for n in norms) ** 0.5


# %% wrong: clipped_numbers
# Thinks that clipping limits each number of a gradient.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    nn.utils.clip_grad_value_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: clipped_too_early
# Clips before there are gradients of this batch.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: clipped_too_late
# Clips when the update has been made.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item(), norm.item()


# %% wrong: first_device_only
# Adds up the gradients of the first device, because those of the other cannot be added to them.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    device = next(model.parameters()).device
    squares = [p.grad.square().sum() for p in model.parameters() if p.device == device]
    norm = torch.stack(squares).sum().sqrt()
    for parameter in model.parameters():
        parameter.grad *= min(1.0, max_norm / norm.item())
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: first_parameters_device
# Thinks that a model has one device, that of its first parameter.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    device = next(model.parameters()).device
    x, y = x.to(device), y.to(device)
    loss = loss_fn(model(x), y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: loss_after_update
# Thinks that the loss of a step is the one after the update.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    y = y.to(output.device)
    loss = loss_fn(output, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    with torch.no_grad():
        return loss_fn(model(x), y).item(), norm.item()


# %% wrong: never_clipped
# Computes the norm, and changes nothing.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: no_update
# Thinks that backward() also updates the parameters.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    return loss.item(), norm.item()


# %% wrong: norm_after_clipping
# Returns the norm that is left after clipping.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: notebook_device1
# Thinks that every model ends on device1, and uses the notebook's.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(device1))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: output_to_cpu
# Thinks that losses are computed on the CPU, and moves the big output instead of the target.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x).cpu()
    loss = loss_fn(output, y.cpu())
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: output_to_target
# Thinks that the output has to come to the target.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x).to(y.device)
    loss = loss_fn(output, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: prints_only
# Thinks that printing the loss is returning it.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    print(f"loss {loss.item():.4f}")


# %% wrong: returns_detached_tensor
# Thinks that a detached tensor is a Python number.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.detach().cpu(), norm


# %% wrong: returns_the_tensor
# Thinks that the loss is a number already, and returns a tensor with its whole graph.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss, norm


# %% wrong: scaled_always
# Brings every gradient to the largest norm, short ones too.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad *= (max_norm / norm).item()
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: step_before_backward
# Thinks that the update comes before the backward pass, so each update uses the gradients of the batch before.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    return loss.item(), norm.item()


# %% wrong: sum_of_norms
# Adds the norms of the parameters, not their squares.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = sum(p.grad.norm().item() for p in model.parameters() if p.grad is not None)
    for parameter in model.parameters():
        if parameter.grad is not None and norm > max_norm:
            parameter.grad *= max_norm / norm
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm


# %% wrong: target_not_moved
# Thinks that loss_fn moves the target to the output's device.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: target_to_the_last_parameter
# Thinks that the output is where the last of the model's parameters is.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss = loss_fn(model(x), y.to(list(model.parameters())[-1].device))
    loss.backward()
    norm = sum(p.grad.square().sum().item() for p in model.parameters() if p.grad is not None) ** 0.5
    if norm > max_norm:
        for p in model.parameters():
            if p.grad is not None:
                p.grad.mul_(max_norm / norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm


# %% wrong: to_without_keeping
# Thinks that y.to(device) moves y in place.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    y.to(output.device)
    loss = loss_fn(output, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: whole_model_moved
# Thinks that a model has to be put on the target's device before training, and so undoes the split.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    model.to(y.device)
    output = model(x).to(y.device)
    loss = loss_fn(output, y)
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: zero_grad_after_backward
# Thinks that gradients are zeroed right before the update, and so throws the new ones away.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    for optimizer in optimizers:
        optimizer.zero_grad()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: zero_grad_forgotten
# Thinks that backward() replaces the gradients, where it adds to them.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: zeroes_at_the_end
# Zeroes the gradients after the update only, so that the first step meets old ones.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return loss.item(), norm.item()


# %% wrong: first_optimizer_cleared
# Clears the gradients of the first optimizer only, as where there is one.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizers[0].zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm.item()


# %% wrong: first_optimizer_steps
# Lets the first optimizer make its step, as where there is one.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizers[0].step()
    return loss.item(), norm.item()


# %% right: gradients_set_to_none
# Throws the old gradients away by hand, gives loss_fn its arguments by name, and prints much.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    for parameter in model.parameters():
        parameter.grad = None
    output = model(x.to(next(model.parameters()).device))
    print("output on", output.device)
    loss = loss_fn(input=output, target=y.to(output.device))
    torch.autograd.backward(loss)
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    print("loss", loss)
    return loss.detach().cpu().tolist(), norm.cpu().tolist()


# %% right: model_zero_grad
# Lets the model zero its gradients, and keeps the number before the update.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    model.train()
    prediction = model(x)
    y = y.to(device=prediction.device)
    loss = loss_fn(prediction, y)
    value = loss.detach().cpu().item()
    model.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return value, norm.item()


# %% right: zero_first
# Zeroes the gradients first, and moves the target before the forward pass is used.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    for optimizer in optimizers:
        optimizer.zero_grad()
    output = model(x)
    target = y.to(output.device, non_blocking=True)
    loss = loss_fn(output, target)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    for optimizer in optimizers:
        optimizer.step()
    return float(loss), float(norm)


# %% right: by_hand
# Adds up the squares as Python numbers, device after device, and scales where it is too much.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = sum(g.square().sum().item() for g in gradients) ** 0.5
    if norm > max_norm:
        for g in gradients:
            g.mul_(max_norm / norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm


# %% right: helpers
# Two helpers; the norm is put together on the device of the loss, and warned of.

import warnings


def each(optimizers, name):
    for optimizer in optimizers:
        getattr(optimizer, name)()


def norm_of(gradients, device):
    return torch.stack([g.norm().to(device) for g in gradients]).norm()


def train_step(model, optimizers, loss_fn, x, y, max_norm):
    each(optimizers, "zero_grad")
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    gradients = [p.grad for o in optimizers for group in o.param_groups for p in group["params"] if p.grad is not None]
    norm = norm_of(gradients, loss.device)
    factor = (max_norm / norm).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor.to(gradient.device)
    if factor < 1:
        warnings.warn("clipped", stacklevel=2)
    each(optimizers, "step")
    return [loss.item(), norm.item()]


# %% wrong: every_parameter_has_a_gradient
# Thinks that after backward() every parameter has a gradient, also a frozen one.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    for optimizer in optimizers:
        optimizer.zero_grad()
    prediction = model(x)
    loss = loss_fn(prediction, y.to(prediction.device))
    loss.backward()
    gradients = [p.grad for p in model.parameters()]
    norm = sum(gradient.square().sum().item() for gradient in gradients) ** 0.5
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm


# %% wrong: target_like_the_output
# Makes the target like the output, in its dtype too, so that class numbers become fractions.

def train_step(model, optimizers, loss_fn, x, y, max_norm):
    for optimizer in optimizers:
        optimizer.zero_grad()
    prediction = model(x)
    loss = loss_fn(prediction, y.to(prediction))
    loss.backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    norm = sum(gradient.square().sum().item() for gradient in gradients) ** 0.5
    if norm > max_norm:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item(), norm
