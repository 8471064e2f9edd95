# %% wrong: tables_stay
# Moves x at the cut, and leaves the tables where they are.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    x, length = x.to(device0), x.shape[1]
    for number, block in enumerate(model.blocks):
        if number == cut:
            x = x.to(device1)
        x = block(x, model.cos[:length], model.sin[:length])
    return x


# %% wrong: tables_for_each_block
# Copies the tables again for each block of the second device.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    length = x.shape[1]
    for number, block in enumerate(model.blocks):
        device = device0 if number < cut else device1
        x = block(x.to(device), model.cos[:length].to(device), model.sin[:length].to(device))
    return x


# %% wrong: tables_of_full_length
# Gives the blocks the tables of all positions, whatever the number of tokens.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    x, cos, sin = x.to(device0), model.cos.to(device0), model.sin.to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)
        x = block(x, cos, sin)
    return x


# %% wrong: moves_all_tables
# Moves the tables of all positions to the second device, and cuts them there.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    x, n = x.to(device0), x.shape[1]
    cos, sin = model.cos.to(device0), model.sin.to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)
        x = block(x, cos[:n], sin[:n])
    return x


# %% wrong: second_half_only
# Thinks that the first blocks are on their device already.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[cut:].to(device1)
    length = x.shape[1]
    x, cos, sin = x.to(device0), model.cos[:length].to(device0), model.sin[:length].to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)
        x = block(x, cos, sin)
    return x


# %% wrong: moves_the_model
# Moves the whole model to the second device first, its tables with it.

def run_blocks(model, x, cut, device0, device1):
    model.to(device1)
    model.blocks[:cut].to(device0)
    length = x.shape[1]
    x, cos, sin = x.to(device0), model.cos[:length].to(device0), model.sin[:length].to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)
        x = block(x, cos, sin)
    return x


# %% wrong: one_block_late
# Moves x behind block number `cut` instead of before it.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    length = x.shape[1]
    x, cos, sin = x.to(device0), model.cos[:length].to(device0), model.sin[:length].to(device0)
    for number, block in enumerate(model.blocks):
        x = block(x, cos, sin)
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)
    return x


# %% wrong: detached
# Thinks that x has to be detached before it crosses.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    length = x.shape[1]
    x, cos, sin = x.to(device0), model.cos[:length].to(device0), model.sin[:length].to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.detach().to(device1), cos.to(device1), sin.to(device1)
        x = block(x, cos, sin)
    return x


# %% wrong: back_to_the_first
# Returns the output on the device where x came in.

def run_blocks(model, x, cut, device0, device1):
    model.blocks[:cut].to(device0)
    model.blocks[cut:].to(device1)
    length = x.shape[1]
    x, cos, sin = x.to(device0), model.cos[:length].to(device0), model.sin[:length].to(device0)
    for number, block in enumerate(model.blocks):
        if number == cut:
            x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1)
        x = block(x, cos, sin)
    return x.to(device0)


# %% right: two_loops
# A loop for each device.

def run_blocks(model, x, cut, device0, device1):
    tables = [model.cos[: x.shape[1]], model.sin[: x.shape[1]]]
    for blocks, device in ((model.blocks[:cut], device0), (model.blocks[cut:], device1)):
        blocks.to(device)
        x = x.to(device)
        tables = [table.to(device) for table in tables]
        for block in blocks:
            x = block(x, *tables)
    return x


# %% right: device_of_each_block
# Moves everything in front of each block: where it is already, `.to` returns the tensor itself.

def run_blocks(model, x, cut, device0, device1):
    cos, sin = model.cos, model.sin
    cos, sin = cos[: x.size(1)], sin[: x.size(1)]
    for number in range(len(model.blocks)):
        device = device1 if number >= cut else device0
        x, cos, sin = x.to(device), cos.to(device), sin.to(device)
        x = model.blocks[number].to(device)(x, cos, sin)
    return x
