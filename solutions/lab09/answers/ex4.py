# %% wrong: by_rows
# Weights each micro-batch by its samples, as lesson 09 has it.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        loss = nn.functional.cross_entropy(output, target.flatten().to(output.device))
        total = total + loss * len(samples) / len(x)
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: mean_times_count
# Weights each mean by its tokens: right, until a micro-batch has none, where the mean is not a number.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    counted = (y != -100).sum().item()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        loss = nn.functional.cross_entropy(output, target.flatten().to(output.device))
        total = total + loss * (target != -100).sum().item() / counted
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: all_words
# Divides by all tokens, those too that do not count.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        target = target.flatten().to(output.device)
        total = total + nn.functional.cross_entropy(output, target, reduction="sum") / y.numel()
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: sum_only
# Goes backward through the sum, and divides only what it returns.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        target = target.flatten().to(output.device)
        total = total + nn.functional.cross_entropy(output, target, reduction="sum")
    total.backward()
    optimizer.step()
    return total.item() / (y != -100).sum().item()


# %% wrong: mean_of_means
# Divides by the number of micro-batches.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    pieces = list(zip(x.split(size), y.split(size)))
    total = 0
    for samples, target in pieces:
        output = model(samples).flatten(0, 1)
        total = total + nn.functional.cross_entropy(output, target.flatten().to(output.device)) / len(pieces)
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: empty_ones_skipped
# Skips a micro-batch without tokens, and weights the others by their samples.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        if (target == -100).all():
            continue
        total = total + nn.functional.cross_entropy(output, target.flatten().to(output.device)) * len(samples) / len(x)
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: padding_counts
# Gives the tokens that do not count the class 0.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    y = y.clamp(min=0)
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        total = total + nn.functional.cross_entropy(output, target.flatten().to(output.device), reduction="sum")
    total = total / y.numel()
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: zero_grad_forgotten
# Never clears the gradients of the step before.

def train_step_tokens(model, optimizer, x, y, size):
    counted = (y != -100).sum().item()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        total = total + nn.functional.cross_entropy(output, target.flatten().to(output.device), reduction="sum")
    total = total / counted
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: whole_batch
# Does not cut the batch.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    output = model(x).flatten(0, 1)
    loss = nn.functional.cross_entropy(output, y.flatten().to(output.device))
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: mean_of_those_with_words
# Takes the mean of the micro-batches' means, of those that have tokens.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        if (target != -100).any():
            output = model(samples).flatten(0, 1)
            losses.append(nn.functional.cross_entropy(output, target.flatten().to(output.device)))
    loss = sum(losses) / len(losses)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: nan_taken_out
# Weights each mean by its samples, and takes out those that are not a number.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    total = 0
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).flatten(0, 1)
        loss = nn.functional.cross_entropy(output, target.flatten().to(output.device))
        if not loss.isnan():
            total = total + loss * len(samples) / len(x)
    total.backward()
    optimizer.step()
    return total.item()


# %% wrong: old_gradients_count
# zero_grad after the step, "so that the next step begins clean": gradients from before the first call count.

def train_step_tokens(model, optimizer, x, y, size):
    count, total = (y != -100).sum().item(), 0.0
    for samples, targets in zip(x.split(size), y.split(size), strict=True):
        output = model(samples).flatten(0, 1)
        target = targets.flatten().to(output.device)
        loss = nn.functional.cross_entropy(output, target, ignore_index=-100, reduction="sum") / count
        loss.backward()
        total += loss.item()
    optimizer.step()
    optimizer.zero_grad()
    return total


# %% right: joined
# Joins the outputs, and takes one loss over all tokens.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    output = torch.cat([model(samples) for samples in x.split(size)])
    loss = nn.functional.cross_entropy(output.flatten(0, 1), y.flatten().to(output.device), ignore_index=-100)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% right: accumulated
# Goes backward after each micro-batch, through its share of the mean.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    counted = int((y != -100).sum())
    losses = []
    for samples, target in zip(x.split(size), y.split(size)):
        output = model(samples).transpose(1, 2)
        loss = nn.functional.cross_entropy(output, target.to(output.device), reduction="sum") / counted
        loss.backward()
        losses.append(loss.detach())
    optimizer.step()
    return sum(losses).item()


# %% right: gradients_divided
# Adds up the sums, and divides the gradients in the end, as torchtune does.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad(set_to_none=True)
    loss_fn = nn.CrossEntropyLoss(reduction="sum")
    counted = (y != -100).sum().item()
    sums = []
    for start in range(0, len(x), size):
        output = model(x[start : start + size])
        target = y[start : start + size].reshape(-1).to(output.device)
        sums.append(loss_fn(output.reshape(-1, output.shape[-1]), target))
    torch.autograd.backward(sums)
    for p in model.parameters():
        p.grad /= counted
    optimizer.step()
    return torch.stack(sums).sum().item() / counted


# %% right: leaves_out_what_does_not_count
# Means with weights; a micro-batch without a token that counts is not computed at all.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    every, mean = int((y != -100).sum()), 0.0
    for start in range(0, len(x), size):
        target = y[start : start + size]
        if (target == -100).all():
            continue
        output = model(x[start : start + size])
        share = int((target != -100).sum()) / every
        loss = nn.functional.cross_entropy(output.transpose(1, 2), target.to(output.device), ignore_index=-100) * share
        loss.backward()
        mean += loss.item()
    optimizer.step()
    return mean


# %% wrong: skipped_by_the_first_word
# Takes a micro-batch whose first token does not count for one in which no token counts.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    tokens, loss = (y != -100).sum().item(), 0
    for samples, targets in zip(x.split(size), y.split(size), strict=True):
        if targets[0, 0] == -100:
            continue
        output = model(samples)
        targets = targets.to(output.device)
        loss = loss + nn.functional.cross_entropy(output.movedim(-1, 1), targets, ignore_index=-100, reduction="sum")
    loss = loss / tokens
    loss.backward()
    optimizer.step()
    return loss.item()


# %% wrong: targets_to_the_notebooks_device1
# Moves the targets to the device1 of the notebook, where the output was in the trials.

def train_step_tokens(model, optimizer, x, y, size):
    optimizer.zero_grad()
    counted = (y != -100).sum().item()  # on the CPU: no device is asked
    losses = []
    for samples, target in zip(x.split(size), y.split(size), strict=True):
        output = model(samples).flatten(0, 1)
        target = target.flatten().to(device1)
        losses.append(nn.functional.cross_entropy(output, target, reduction="sum", ignore_index=-100))
    loss = sum(losses) / counted
    loss.backward()
    optimizer.step()
    return loss.item()
