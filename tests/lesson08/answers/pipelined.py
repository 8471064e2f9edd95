# %% wrong: all_first_parts_first
# Runs all of stage 0 before all of stage 1.

def pipelined(stage0, stage1, device0, device1, x, size):
    hidden = [stage0(piece).to(device1) for piece in x.to(device0).split(size)]
    return torch.cat([stage1(each) for each in hidden])


# %% wrong: copies_late
# Copies a micro-batch when device1 needs it.

def pipelined(stage0, stage1, device0, device1, x, size):
    hidden = [stage0(piece) for piece in x.to(device0).split(size)]
    return torch.cat([stage1(each.to(device1)) for each in hidden])


# %% wrong: batch_never_moved
# Assumes that the batch is on device0 already.

def pipelined(stage0, stage1, device0, device1, x, size):
    return torch.cat([stage1(stage0(piece).to(device1)) for piece in x.split(size)])


# %% wrong: chunk_for_split
# Thinks that size is the number of micro-batches.

def pipelined(stage0, stage1, device0, device1, x, size):
    return torch.cat([stage1(stage0(piece).to(device1)) for piece in x.to(device0).chunk(size)])


# %% wrong: waits_for_each
# Waits for device1 in each turn, to be sure that it is done.

def pipelined(stage0, stage1, device0, device1, x, size):
    outputs = []
    for piece in x.to(device0).split(size):
        outputs.append(stage1(stage0(piece).to(device1)))
        torch.get_device_module(device1).synchronize(device1)
    return torch.cat(outputs)


# %% wrong: gradients_cut
# Joins the values, without the autograd graph.

def pipelined(stage0, stage1, device0, device1, x, size):
    outputs = [stage1(stage0(piece).to(device1)).data for piece in x.to(device0).split(size)]
    return torch.cat(outputs).requires_grad_()


# %% wrong: last_rows_lost
# Leaves out the samples that do not fill a micro-batch.

def pipelined(stage0, stage1, device0, device1, x, size):
    outputs = []
    for number in range(len(x) // size):
        piece = x[number * size : (number + 1) * size].to(device0)
        outputs.append(stage1(stage0(piece).to(device1)))
    return torch.cat(outputs)


# %% wrong: outputs_back
# Gives each output back to device0, which then has to wait for it before the next micro-batch.

def pipelined(stage0, stage1, device0, device1, x, size):
    outputs = []
    for piece in x.to(device0).split(size):
        output = stage1(stage0(piece).to(device1))
        outputs.append(output.to(device0))
    return torch.cat(outputs).to(device1)


# %% right: one_line
# One comprehension.

def pipelined(stage0, stage1, device0, device1, x, size):
    return torch.cat([stage1(stage0(piece).to(device1)) for piece in x.to(device0).split(size)])


# %% right: as_the_tutorial
# Carries one micro-batch over from turn to turn, as PyTorch's tutorial does.

def pipelined(stage0, stage1, device0, device1, x, size):
    pieces = iter(x.to(device0).split(size))
    before = stage0(next(pieces)).to(device1)
    outputs = []
    for piece in pieces:
        outputs.append(stage1(before))
        before = stage0(piece).to(device1)
    outputs.append(stage1(before))
    return torch.cat(outputs)


# %% right: samples_moved_in_the_loop
# Cuts by hand, and moves each micro-batch itself.

def pipelined(stage0, stage1, device0, device1, x, size):
    out = None
    for start in range(0, len(x), size):
        piece = x[start:start + size].to(device0)
        y = stage1(stage0(piece).to(device1))
        out = y if out is None else torch.cat((out, y))
    return out
