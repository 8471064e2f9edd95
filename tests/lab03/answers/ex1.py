# %% wrong: first_parameters_device
# Thinks that a model has one device, that of its first parameter.

def train_step(model, optimizer, loss_fn, x, y):
    device = next(model.parameters()).device
    x, y = x.to(device), y.to(device)
    loss = loss_fn(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: loss_after_update
# Thinks that the loss of a step is the one after the update.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    y = y.to(output.device)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        return loss_fn(model(x), y).item()


# %% wrong: no_update
# Thinks that backward() also updates the parameters.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


# %% wrong: notebook_device1
# Thinks that every model ends on device1, and uses the notebook's.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(device1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: output_to_cpu
# Thinks that losses are computed on the CPU, and moves the big output instead of the target.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x).cpu()
    loss = loss_fn(output, y.cpu())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: output_to_target
# Thinks that the output has to come to the target.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x).to(y.device)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: prints_only
# Thinks that printing the loss is returning it.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"loss {loss.item():.4f}")


# %% wrong: returns_detached_tensor
# Thinks that a detached tensor is a Python number.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach().cpu()


# %% wrong: returns_the_tensor
# Thinks that the loss is a number already, and hands out a tensor with its whole graph.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


# %% wrong: step_before_backward
# Thinks that the update comes before the backward pass, so each update uses the gradients of the batch before.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    optimizer.step()
    optimizer.zero_grad()
    loss.backward()
    return loss.item()


# %% wrong: target_not_moved
# Thinks that loss_fn fetches the target from wherever it is, as a model fetches its input.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: to_without_keeping
# Thinks that y.to(device) moves y in place.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    y.to(output.device)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: whole_model_moved
# Thinks that a model has to be put on the target's device before training, and so undoes the split.

def train_step(model, optimizer, loss_fn, x, y):
    model.to(y.device)
    output = model(x).to(y.device)
    loss = loss_fn(output, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: zero_grad_after_backward
# Thinks that gradients are zeroed right before the update, and so throws the new ones away.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()
    return loss.item()


# %% wrong: zero_grad_forgotten
# Thinks that backward() replaces the gradients, where it adds to them.

def train_step(model, optimizer, loss_fn, x, y):
    output = model(x)
    loss = loss_fn(output, y.to(output.device))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: closure
# Writes the step as a closure, and warns when the target has to be moved.

import warnings


def train_step(model, optimizer, loss_fn, x, y):
    def closure():
        optimizer.zero_grad()
        output = model(x)
        if y.device != output.device:
            warnings.warn(f"target moved from {y.device} to {output.device}", stacklevel=2)
        loss = loss_fn(output, y.to(output)) if y.is_floating_point() else loss_fn(output, y.to(output.device))
        loss.backward()
        return loss

    return optimizer.step(closure).item()


# %% right: gradients_set_to_none
# Throws the old gradients away by hand, gives loss_fn its arguments by name, and prints much.

def train_step(model, optimizer, loss_fn, x, y):
    for parameter in model.parameters():
        parameter.grad = None
    output = model(x.to(next(model.parameters()).device))
    print("output on", output.device)
    loss = loss_fn(input=output, target=y.to(output.device))
    torch.autograd.backward(loss)
    optimizer.step()
    print("loss", loss)
    return loss.tolist() if loss.device.type == "cpu" else loss.cpu().tolist()


# %% right: model_zero_grad
# Lets the model zero its gradients, and keeps the number before the update.

def train_step(model, optimizer, loss_fn, x, y):
    model.train()
    prediction = model(x)
    y = y.to(device=prediction.device)
    loss = loss_fn(prediction, y)
    value = loss.detach().cpu().item()
    model.zero_grad()
    loss.backward()
    optimizer.step()
    return value


# %% right: zero_first
# Zeroes the gradients first, and moves the target before the forward pass is used.

def train_step(model, optimizer, loss_fn, x, y):
    optimizer.zero_grad(set_to_none=False)
    output = model(x)
    target = y.to(output.device, non_blocking=True)
    loss = loss_fn(output, target)
    loss.backward()
    optimizer.step()
    return float(loss)
