# %% wrong: parameters_averaged
# Lets each replica take its own step and averages the weights afterwards. With Adam that is another training.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    xs, ys = x.tensor_split(len(models)), y.tensor_split(len(models))
    total = 0.0
    losses = []
    for model, optimizer, rows, targets in zip(models, optimizers, xs, ys):
        device = next(model.parameters()).device
        optimizer.zero_grad()
        loss = loss_fn(model(rows.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach() * len(rows) / len(x))
    with torch.no_grad():
        for same in zip(*[model.parameters() for model in models]):
            mean = sum(p.to(same[0].device) * len(rows) / len(x) for p, rows in zip(same, xs))
            for p in same:
                p.copy_(mean)
    return sum(float(loss) for loss in losses)


# %% wrong: shares_weighed_alike
# Takes the plain mean of the gradients, though the shares have different numbers of samples.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            mean = sum(p.grad.to(same[0].device) for p in same) / count
            for p in same:
                p.grad = mean.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(float(loss) for loss in losses) / count


# %% wrong: gradients_summed
# Adds the gradients of the shares' means up, and does not divide.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            total = sum(p.grad.to(same[0].device) for p in same)
            for p in same:
                p.grad = total.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(float(loss) * len(rows) for loss, rows in zip(losses, x.tensor_split(count))) / len(x)


# %% wrong: the_whole_batch_everywhere
# Gives each replica the whole batch. The numbers are right, and no time is saved.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    losses = []
    for model, optimizer in zip(models, optimizers):
        device = next(model.parameters()).device
        optimizer.zero_grad()
        loss = loss_fn(model(x.to(device)), y.to(device))
        loss.backward()
        losses.append(loss.detach())
    for optimizer in optimizers:
        optimizer.step()
    return losses[0]


# %% wrong: the_same_share_twice
# Cuts the batch, and gives each replica the first share.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    rows, targets = x.tensor_split(count)[0], y.tensor_split(count)[0]
    losses = []
    for model in models:
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            mean = sum(p.grad.to(same[0].device) for p in same) / count
            for p in same:
                p.grad = mean.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return losses[0].detach()


# %% wrong: rest_of_the_rows_lost
# Gives each replica len(x) // replicas samples, and leaves out those that are over.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    size = len(x) // count
    losses = []
    for n, model in enumerate(models):
        model.zero_grad()
        device = next(model.parameters()).device
        part = slice(n * size, (n + 1) * size)
        losses.append(loss_fn(model(x[part].to(device)), y[part].to(device)) / count)
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            total = sum(p.grad.to(same[0].device) for p in same)
            for p in same:
                p.grad = total.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(loss.item() for loss in losses)


# %% wrong: only_the_first_steps
# Lets the first replica take the step, and forgets that the others have optimizers, too.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)) * len(rows) / len(x))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            total = sum(p.grad.to(same[0].device) for p in same)
            for p in same:
                p.grad = total.to(p.device, copy=True)
    optimizers[0].step()
    return sum(loss.item() for loss in losses)


# %% wrong: sum_stays_on_the_first
# Puts the mean into the first replica only.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)) * len(rows) / len(x))
    for loss in losses:
        loss.backward()
    for first, *others in zip(*[model.parameters() for model in models]):
        if first.grad is not None:
            for other in others:
                first.grad += other.grad.to(first.device)
    for optimizer in optimizers:
        optimizer.step()
    return sum(loss.item() for loss in losses)


# %% wrong: changed_while_adding
# Changes the first replica's gradient while the next replicas still add it up.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)) * len(rows) / len(x))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            for p in same:
                p.grad = sum(other.grad.to(p.device) for other in same)
    for optimizer in optimizers:
        optimizer.step()
    return sum(loss.item() for loss in losses)


# %% wrong: own_first
# Each replica adds the others' gradients to its own, so each in another order. The replicas drift apart by rounding.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)) * len(rows) / len(x))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is None:
            continue
        gradients = [p.grad for p in same]
        for rank, p in enumerate(same):
            total = gradients[rank].clone()
            for other in gradients[rank + 1 :] + gradients[:rank]:
                total += other.to(p.device)
            p.grad = total
    for optimizer in optimizers:
        optimizer.step()
    return sum(loss.item() for loss in losses)


# %% wrong: old_gradients_count
# Never sets the gradients to zero.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)) * len(rows) / len(x))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            total = sum(p.grad.to(same[0].device) for p in same)
            for p in same:
                p.grad = total.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(loss.item() for loss in losses)


# %% wrong: item_in_the_loop
# Asks for each loss before the next replica gets its work, so that one device works at a time.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    total = 0.0
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        loss = loss_fn(model(rows.to(device)), targets.to(device)) * len(rows) / len(x)
        loss.backward()
        total += loss.item()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            mean = sum(p.grad.to(same[0].device) for p in same)
            for p in same:
                p.grad = mean.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return total


# %% wrong: loss_of_one_share
# Returns the loss of the last share, as if it were that of the batch.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        loss = loss_fn(model(rows.to(device)), targets.to(device))
        (loss * len(rows) / len(x)).backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            mean = sum(p.grad.to(same[0].device) for p in same)
            for p in same:
                p.grad = mean.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return loss.item()


# %% wrong: zeros_for_frozen_ones
# Fills in zeros where there is no gradient, because they change no sum. But then weight decay shrinks what is frozen.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    whole = 0.0
    losses = []
    for model, optimizer, inputs, targets in zip(
        models, optimizers, x.tensor_split(len(models)), y.tensor_split(len(models))
    ):
        optimizer.zero_grad()
        device = next(model.parameters()).device
        loss = loss_fn(model(inputs.to(device)), targets.to(device)) * (len(inputs) / len(x))
        loss.backward()
        losses.append(loss.detach())
    for same in zip(*(model.parameters() for model in models)):
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in same]
        total = sum(gradient.to(same[0].device) for gradient in found)
        for p in same:
            p.grad = total.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return whole + sum(float(loss) for loss in losses)


# %% wrong: every_optimizer_in_each_turn
# Lets all optimizers step in a loop over the replicas, and so each of them several times.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    losses = []
    shares = zip(x.tensor_split(len(models)), y.tensor_split(len(models)), strict=True)
    for model, optimizer, (inputs, targets) in zip(models, optimizers, shares, strict=True):
        device = next(model.parameters()).device
        optimizer.zero_grad()
        loss = loss_fn(model(inputs.to(device)), targets.to(device)) * len(inputs) / len(x)
        loss.backward()
        losses.append(loss.detach())
    for same in zip(*(model.parameters() for model in models), strict=True):
        if same[0].grad is not None:
            total = sum(parameter.grad.to(same[0].device) for parameter in same)
            for parameter in same:
                parameter.grad = total.to(parameter.device, copy=True)
    for _ in models:
        for optimizer in optimizers:
            optimizer.step()
    return sum(float(loss) for loss in losses)


# %% wrong: mean_of_the_gradients
# Returns the right loss, and takes the mean of the shares' gradients, however many samples they have.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    count = len(models)
    losses = []
    for model, rows, targets in zip(models, x.tensor_split(count), y.tensor_split(count)):
        model.zero_grad()
        device = next(model.parameters()).device
        losses.append(loss_fn(model(rows.to(device)), targets.to(device)))
    for loss in losses:
        loss.backward()
    for same in zip(*[model.parameters() for model in models]):
        if same[0].grad is not None:
            total = sum(p.grad.to(same[0].device) for p in same) / count
            for p in same:
                p.grad = total.to(p.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(loss.item() * len(rows) for loss, rows in zip(losses, x.tensor_split(count))) / len(x)


# %% right: gradients_weighed
# Weighs the gradients and not the losses, and sums on the last device.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    weights, losses = [], []
    for model, optimizer, rows, targets in zip(
        models, optimizers, torch.tensor_split(x, len(models)), torch.tensor_split(y, len(models))
    ):
        optimizer.zero_grad(set_to_none=False)
        device = next(model.parameters()).device
        loss = loss_fn(model(rows.to(device)), targets.to(device))
        loss.backward()
        losses.append(loss.detach())
        weights.append(len(rows) / len(x))
    with torch.no_grad():
        for same in zip(*(model.parameters() for model in models)):
            if same[0].grad is None:
                continue
            mean = torch.zeros_like(same[-1])
            for p, weight in zip(same, weights):
                mean += weight * p.grad.to(mean.device)
            for p in same:
                p.grad.copy_(mean)
    for optimizer in optimizers:
        optimizer.step()
    return sum(weight * loss.item() for weight, loss in zip(weights, losses))


# %% right: one_loss
# Adds the losses up on one device, and lets one backward pass go through all replicas.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    devices = [next(model.parameters()).device for model in models]
    for optimizer in optimizers:
        optimizer.zero_grad()
    total = 0
    for model, device, a, b in zip(models, devices, x.tensor_split(len(models)), y.tensor_split(len(models))):
        total = total + (loss_fn(model(a.to(device)), b.to(device)) * (len(a) / len(x))).to(devices[0])
    total.backward()
    for same in zip(*(m.parameters() for m in models)):
        if same[0].grad is not None:
            whole = sum(p.grad.to(devices[0]) for p in same)
            for p in same:
                p.grad = whole.clone().to(p.device)
    for optimizer in optimizers:
        optimizer.step()
    return total.detach()


# %% right: flat
# Packs the gradients of each replica into one flat tensor.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    P = len(models)
    losses = []
    for model, opt, xs, ys in zip(models, optimizers, x.tensor_split(P), y.tensor_split(P)):
        opt.zero_grad()
        d = next(model.parameters()).device
        loss = loss_fn(model(xs.to(d)), ys.to(d)) * len(xs) / len(x)
        loss.backward()
        losses.append(loss.detach())
    having = [[p for p in model.parameters() if p.grad is not None] for model in models]
    flats = [torch.cat([p.grad.reshape(-1) for p in own]) for own in having]
    total = flats[0]
    for flat in flats[1:]:
        total = total + flat.to(total.device)
    for own in having:
        flat = total.to(own[0].device)
        for p, piece in zip(own, flat.split([p.numel() for p in own])):
            p.grad = piece.view_as(p).clone()
    for opt in optimizers:
        opt.step()
    return torch.stack([loss.cpu() for loss in losses]).sum()


# %% wrong: two_copies_at_least
# Begins the sum with the first two replicas, as if there were always two.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    losses = []
    shares = zip(x.tensor_split(len(models)), y.tensor_split(len(models)), strict=True)
    for model, optimizer, (inputs, targets) in zip(models, optimizers, shares, strict=True):
        device = next(model.parameters()).device
        optimizer.zero_grad()
        loss = loss_fn(model(inputs.to(device)), targets.to(device)) * len(inputs) / len(x)
        loss.backward()
        losses.append(loss.detach())
    for same in zip(*(model.parameters() for model in models), strict=True):
        if same[0].grad is not None:
            first, second, *others = (parameter.grad.to(same[0].device) for parameter in same)
            total = sum(others, first + second)
            for parameter in same:
                parameter.grad = total.to(parameter.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(float(loss) for loss in losses)


# %% wrong: two_at_a_time
# Waits after every second replica, so that its work does not pile up: a third replica begins when the first two are done.

def data_parallel_step(models, optimizers, loss_fn, x, y):
    losses = []
    shares = zip(x.tensor_split(len(models)), y.tensor_split(len(models)), strict=True)
    for model, optimizer, (inputs, targets) in zip(models, optimizers, shares, strict=True):
        device = next(model.parameters()).device
        optimizer.zero_grad()
        loss = loss_fn(model(inputs.to(device)), targets.to(device)) * len(inputs) / len(x)
        loss.backward()
        if len(losses) % 2 == 1:
            loss.item()
        losses.append(loss.detach())
    for same in zip(*(model.parameters() for model in models), strict=True):
        if same[0].grad is not None:
            total = sum(parameter.grad.to(same[0].device) for parameter in same)
            for parameter in same:
                parameter.grad = total.to(parameter.device, copy=True)
    for optimizer in optimizers:
        optimizer.step()
    return sum(float(loss) for loss in losses)
