# %% wrong: clips_scaled_gradients
# Clips right after backward(), as without a scaler: the gradients are still scaled.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: unscales_after_clipping
# Clips the scaled gradients, and unscales them afterwards.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: no_clipping
# Leaves clipping out, because the scaler looks after large gradients.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: clips_values
# Clips each number of the gradients instead of their norm.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: steps_on_inf
# Unscales by the scaler, and steps by the optimizer: the weights become nan when a gradient is infinite.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    scaler.update()
    return loss


# %% wrong: no_update
# Forgets update(): the scale never changes, and unscale_ refuses a second step.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    return loss


# %% wrong: skips_without_halving
# Skips a step that overflows by itself, and returns before the scale is updated.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scale = scaler.get_scale()
    (loss * scale).backward()
    for p in model.parameters():
        p.grad /= scale
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
    if norm.isfinite():
        optimizer.step()
    return loss


# %% wrong: autocast_around_everything
# Puts the whole step under autocast.

def train_step(model, optimizer, scaler, x, y, clip):
    with torch.autocast(x.device.type, dtype=torch.float16):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        scaler.step(optimizer)
        scaler.update()
    return loss


# %% wrong: loss_outside_autocast
# Computes the loss after the forward pass has left autocast: it gets float16 logits and stays in float16.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: model_in_half
# Casts the model and the batch to float16, without autocast.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model.half()(x.half()).float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: half_weights_by_hand
# Casts the model to float16, scales and unscales by hand, and updates float16 weights.

def train_step(model, optimizer, scaler, x, y, clip):
    model.half()
    optimizer.zero_grad()
    for p in model.parameters():
        p.grad = None
    loss = nn.functional.cross_entropy(model(x.half()).float(), y)
    scaler.scale(loss).backward()
    grads = [p.grad for p in model.parameters()]
    if all(g.isfinite().all() for g in grads):
        for g in grads:
            g.div_(scaler.get_scale())
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    else:
        scaler.update(scaler.get_scale() / 2)
    return loss


# %% wrong: no_scaler
# Trains in float16 without scaling the loss.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    return loss


# %% wrong: gradients_add_up
# Does not clear the gradients.

def train_step(model, optimizer, scaler, x, y, clip):
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: cleared_at_the_end
# Clears the gradients after the update, so those from before the first step count.

def train_step(model, optimizer, scaler, x, y, clip):
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    return loss


# %% wrong: returns_the_scaled_loss
# Returns the loss that was scaled.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss = scaler.scale(loss)
    loss.backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: bfloat16
# Takes bfloat16, the default of autocast on the CPU.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: float32
# Leaves autocast out: the scaler makes the step mixed.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: autocast_for_cuda
# Turns autocast on for CUDA, whatever the device.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: unscaled_twice
# Divides the gradients by the scale before the scaler does so, too.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    for p in model.parameters():
        p.grad /= scaler.get_scale()
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: a_new_scaler_each_step
# Makes a scaler in each step, which forgets what the scale was.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    scaler = torch.amp.GradScaler(x.device.type, init_scale=scaler.get_scale())
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: nan_becomes_zero
# Replaces infinite gradients by zero, so that no step is lost.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    for p in model.parameters():
        p.grad.nan_to_num_(0.0, 0.0, 0.0)
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: autocast_of_device0
# Turns autocast on for the notebook's device0, wherever the batch is.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(device0.type, dtype=torch.float16):
        loss = nn.functional.cross_entropy(model(x), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% wrong: zero_step_on_overflow
# Sets gradients to zero when one is infinite, and steps anyway: momentum moves the weights.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    if not all(torch.isfinite(p.grad).all() for p in model.parameters()):
        optimizer.zero_grad(set_to_none=False)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    scaler.update()
    return loss.detach()


# %% wrong: float16_softmax
# Takes the softmax of float16 logits in float16, and the loss of it in float32.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.nll_loss(logits.log_softmax(-1).float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


# %% wrong: bf16_logits_rounding
# Rounds the logits to bfloat16 on the way to float32.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.bfloat16().float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


# %% wrong: default_dtype
# Leaves autocast's dtype out. On the CPU it is bfloat16.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


# %% wrong: sum_over_the_batch
# Sums the loss over the batch.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y, reduction="sum")
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


# %% wrong: six_classes
# Computes the cross-entropy by hand, with the number of classes of the model below.

def train_step(model, optimizer, scaler, x, y, clip):
    optimizer.zero_grad()
    with torch.autocast(x.device.type, dtype=torch.float16):
        logits = model(x)
    chosen = (y.unsqueeze(1) == torch.arange(6, device=y.device)).float()
    loss = -(logits.float().log_softmax(-1)[:, :6] * chosen).sum(-1).mean()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach()


# %% right: scaler_by_hand
# Scales, looks for inf and skips by hand, and tells the scaler its new scale.

def train_step(model, optimizer, scaler, x, y, clip):
    for p in model.parameters():
        p.grad = None
    scale = scaler.get_scale()
    with torch.autocast(device_type=x.device.type, dtype=torch.float16):
        logits = model(x)
    loss = nn.functional.cross_entropy(logits.float(), y)
    scaler.scale(loss).backward()
    gradients = [p.grad for p in model.parameters()]
    finite = all(bool(g.isfinite().all()) for g in gradients)
    if finite:
        for g in gradients:
            g.div_(scale)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
    else:
        scaler.update(scale / 2)
    return loss.detach()


# %% right: clears_by_the_model
# Clears by the model, in a function of its own for the loss, and clips by the norm it computes.

def half_loss(model, x, y):
    with torch.autocast(x.device.type, torch.float16):
        return nn.CrossEntropyLoss()(model(x), y)


def train_step(model, optimizer, scaler, x, y, clip):
    model.zero_grad(set_to_none=True)
    loss = half_loss(model, x, y)
    torch.autograd.backward(scaler.scale(loss))
    scaler.unscale_(optimizer)
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.stack([g.square().sum() for g in grads]).sum().sqrt()
    factor = (clip / (norm + 1e-6)).clamp(max=1.0)
    for g in grads:
        g.mul_(factor)
    scaler.step(optimizer)
    scaler.update()
    return loss


# %% right: clips_with_a_scaled_norm
# Leaves the gradients scaled, and clips to the scaled norm: step() unscales them.

def train_step(model, optimizer, scaler, x, y, clip):
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    optimizer.zero_grad(set_to_none=False)
    autocast = torch.autocast(x.device.type, dtype=torch.float16)
    with autocast:
        scores = model(x)
        loss = nn.functional.nll_loss(scores.log_softmax(-1, dtype=torch.float32), y)
    scaled = scaler.scale(loss)
    scaled.backward()
    largest = clip * scaler.get_scale()
    total = nn.utils.get_total_norm([p.grad for p in parameters])
    if total.isfinite():
        nn.utils.clip_grads_with_norm_(parameters, largest, total)
    scaler.step(optimizer)
    scaler.update()
    return loss.detach().clone()


# %% right: a_closure_and_gradients_of_its_own
# Asks autograd for the gradients instead of calling backward().

def train_step(model, optimizer, scaler, x, y, clip):
    weights = list(model.parameters())

    @torch.autocast(x.device.type, dtype=torch.float16)
    def forward():
        return model(x)

    loss = nn.functional.cross_entropy(forward().to(torch.float32), y)
    scaled = scaler.scale(loss)
    for weight, gradient in zip(weights, torch.autograd.grad(scaled, weights)):
        weight.grad = gradient
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(weights, max_norm=clip)
    scaler.step(optimizer)
    scaler.update()
    return loss
