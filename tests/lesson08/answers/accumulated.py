# %% wrong: means_summed
# Sums the mean losses of the micro-batches, so the gradients are as many times too large.

def accumulated(stage0, stage1, device0, device1, x, size):
    total = 0.0
    for micro_batch in x.to(device0).split(size):
        loss = stage1(stage0(micro_batch).to(device1)).square().mean()
        loss.backward()
        total = total + loss.detach() * size / len(x)
    return total


# %% wrong: one_backward_at_the_end
# Sums the losses and calls backward() once: right numbers, and all micro-batches are in flight.

def accumulated(stage0, stage1, device0, device1, x, size):
    total = 0.0
    for micro_batch in x.to(device0).split(size):
        total = total + stage1(stage0(micro_batch).to(device1)).square().mean() * size / len(x)
    total.backward()
    return total.detach()


# %% wrong: gradients_cleared_each_time
# Clears the gradients before each micro-batch, as before each step.

def accumulated(stage0, stage1, device0, device1, x, size):
    total = 0.0
    for micro_batch in x.to(device0).split(size):
        stage0.zero_grad()
        stage1.zero_grad()
        loss = stage1(stage0(micro_batch).to(device1)).square().mean() * size / len(x)
        loss.backward()
        total = total + loss.detach()
    return total


# %% wrong: last_loss_returned
# Returns the loss of the last micro-batch.

def accumulated(stage0, stage1, device0, device1, x, size):
    for micro_batch in x.to(device0).split(size):
        loss = stage1(stage0(micro_batch).to(device1)).square().mean()
        (loss * size / len(x)).backward()
    return loss.detach()


# %% wrong: the_whole_batch
# Does not split the batch.

def accumulated(stage0, stage1, device0, device1, x, size):
    loss = stage1(stage0(x.to(device0)).to(device1)).square().mean()
    loss.backward()
    return loss.detach()


# %% wrong: graph_kept_in_the_total
# Sums losses that carry their graphs.

def accumulated(stage0, stage1, device0, device1, x, size):
    total = 0.0
    for micro_batch in x.to(device0).split(size):
        loss = stage1(stage0(micro_batch).to(device1)).square().mean() * size / len(x)
        loss.backward()
        total = total + loss
    return total


# %% right: counted
# Counts the micro-batches, and moves each by itself.

def accumulated(stage0, stage1, device0, device1, x, size):
    pieces = torch.split(x, size)
    losses = []
    for piece in pieces:
        output = stage1(stage0(piece.to(device0)).to(device1))
        loss = output.pow(2).mean() / len(pieces)
        loss.backward()
        losses.append(loss.detach())
    return torch.stack(losses).sum()
