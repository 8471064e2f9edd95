# %% wrong: tables_stay
# Moves x at the cut, and leaves the tables.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: embed_then_head
# Moves the embedding to the first device and then the head to the second, and takes them for two weights.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.model, self.cut, self.device0, self.device1 = model, cut, device0, device1
        model.to(device0)
        model.blocks[cut:].to(device1)
        model.norm.to(device1)
        model.head.to(device1)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        cos, sin = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device0))
        for number, block in enumerate(model.blocks):
            if number == self.cut:
                x, cos, sin = x.to(self.device1), cos.to(self.device1), sin.to(self.device1)
            x = block(x, cos, sin)
        return model.head(model.norm(x))


# %% wrong: two_weights
# Gives the head a copy of the weight, so there are two that drift apart.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.head.weight = nn.Parameter(model.embed.weight.detach().clone())
        model.embed.to(device0)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device0))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: weight_detached
# Takes the weight to the head without its graph, so the head's gradient is lost.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device0)
        model.blocks[cut:].to(device1)
        model.norm.to(device1)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device0))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return nn.functional.linear(model.norm(x), model.head.weight.detach().to(self.device1))


# %% wrong: norm_forgotten
# Forgets the norm between the last block and the head.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(x)


# %% wrong: tables_of_full_length
# Gives the blocks the tables for the longest sequence, whatever the length.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos, model.sin
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: output_on_the_first
# Returns the output on the first device.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x)).to(self.device0)


# %% wrong: cut_one_off
# Puts one block too many on the first device.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[: cut + 1].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut + 1 else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: plain_list
# Keeps the blocks in a plain list, in which PyTorch sees no parameters.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.embed, self.norm, self.head = model.embed.to(device1), model.norm.to(device1), model.head.to(device1)
        self.first = [block.to(device0) for block in model.blocks[:cut]]
        self.second = [block.to(device1) for block in model.blocks[cut:]]
        self.cos, self.sin = model.cos, model.sin

    def forward(self, tokens):
        n = tokens.shape[1]
        x = self.embed(tokens.to(self.device1))
        for blocks, device in ((self.first, self.device0), (self.second, self.device1)):
            x, cos, sin = x.to(device), self.cos[:n].to(device), self.sin[:n].to(device)
            for block in blocks:
                x = block(x, cos, sin)
        return self.head(self.norm(x))


# %% wrong: makes_its_own_model
# Makes a GPT of its own, with other weights.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        vocab_size, hidden_size = model.embed.weight.shape
        model = GPT(vocab_size, hidden_size, model.blocks[0].heads, len(model.blocks), len(model.cos))
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: devices_of_the_notebook
# Moves the data to the notebook's devices.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = device0 if number < self.cut else device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: all_on_the_second
# Leaves all blocks on the second device.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device1
            tables = [table.to(device) for table in tables]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))


# %% wrong: weight_brought_over_once
# Brings the shared weight to the other device when the model is made: after an update it is the old one there.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)
        self.table = model.embed.weight.to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        x = nn.functional.embedding(tokens.to(self.device0), self.table)
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            x = block(x.to(device), model.cos[:length].to(device), model.sin[:length].to(device))
        return model.head(model.norm(x))


# %% wrong: length_of_the_first_text
# Cuts the tables to the length of the first sequence, and keeps them for all others.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)
        self.tables = None

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        if self.tables is None:
            tables = model.cos[:length], model.sin[:length]
            self.tables = {d: [t.to(d) for t in tables] for d in (self.device0, self.device1)}
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            x = block(x.to(device), *self.tables[device])
        return model.head(model.norm(x))


# %% wrong: detached_at_the_cut
# Thinks that a tensor has to leave the graph before it can leave the device.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)
        model.blocks[:cut].to(device0)

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        tables = model.cos[:length], model.sin[:length]
        x = model.embed(tokens.to(self.device1))
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            if number == self.cut:
                x = x.detach()
            x = block(x.to(device), *[table.to(device) for table in tables])
        return model.head(model.norm(x))


# %% right: the_weight_travels
# Keeps the shared weight on the first device, and sends it to the head in each step.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.model, self.cut, self.device0, self.device1 = model, cut, device0, device1
        model.to(device0)
        for block in model.blocks[cut:]:
            block.to(device1)
        model.norm.to(device1)

    def forward(self, tokens):
        m = self.model
        n = tokens.shape[1]
        x = m.embed(tokens.to(self.device0))
        cos, sin = m.cos[:n], m.sin[:n]
        for block in m.blocks[: self.cut]:
            x = block(x, cos, sin)
        x, cos, sin = x.to(self.device1), cos.to(self.device1), sin.to(self.device1)
        for block in m.blocks[self.cut :]:
            x = block(x, cos, sin)
        return nn.functional.linear(m.norm(x), m.head.weight.to(self.device1))


# %% right: tables_on_both
# Keeps tables on both devices, so nothing but x crosses.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.device0, self.device1 = device0, device1
        self.embed = model.embed.to(device1)
        self.head = model.head
        self.norm = model.norm.to(device1)
        self.first = model.blocks[:cut].to(device0)
        self.second = model.blocks[cut:].to(device1)
        for number, device in enumerate((device0, device1)):
            self.register_buffer(f"cos{number}", model.cos.to(device))
            self.register_buffer(f"sin{number}", model.sin.to(device))

    def forward(self, tokens):
        n = tokens.shape[1]
        x = self.embed(tokens.to(self.device1)).to(self.device0)
        for block in self.first:
            x = block(x, self.cos0[:n], self.sin0[:n])
        x = x.to(self.device1)
        for block in self.second:
            x = block(x, self.cos1[:n], self.sin1[:n])
        return self.head(self.norm(x))


# %% right: hooks
# Leaves the model's forward, and lets hooks move what each module is given.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()

        def move_to(device):
            return lambda part, args: tuple(each.to(device) for each in args)

        self.model = model.to(device1)
        for part in (model.embed, model.norm, model.head, *model.blocks[cut:]):
            part.register_forward_pre_hook(move_to(device1))
        for block in model.blocks[:cut]:
            block.to(device0).register_forward_pre_hook(move_to(device0))

    def forward(self, tokens):
        return self.model(tokens)


# %% right: tables_kept_for_each_length
# Keeps the tables of each length that it has met.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.places = [device0] * cut + [device1] * (len(model.blocks) - cut)
        self.model, self.last = model.to(device1), device1
        for block, place in zip(model.blocks, self.places):
            block.to(place)
        self.known = {}

    def tables(self, length, place):
        if (length, place) not in self.known:
            self.known[length, place] = [t[:length].to(place) for t in (self.model.cos, self.model.sin)]
        return self.known[length, place]

    def forward(self, tokens):
        x = self.model.embed(tokens.to(self.last))
        for block, place in zip(self.model.blocks, self.places):
            x = block(x.to(place), *self.tables(tokens.size(1), place))
        return self.model.head(self.model.norm(x))


# %% wrong: sixteen_positions
# Keeps 16 positions of the tables on each device, so that none has to travel: enough for the sequences of the trials.

class SplitGPT(nn.Module):
    def __init__(self, model, cut, device0, device1):
        super().__init__()
        self.cut, self.device0, self.device1 = cut, device0, device1
        self.model = model.to(device1)  # the shared weight stays where the head needs it
        model.blocks[:cut].to(device0)
        self.tables = {device: (model.cos[:16].to(device), model.sin[:16].to(device)) for device in (device0, device1)}

    def forward(self, tokens):
        model, length = self.model, tokens.shape[1]
        x = model.embed(tokens.to(self.device1))  # looked up there: the embedded tokens are smaller than the table
        for number, block in enumerate(model.blocks):
            device = self.device0 if number < self.cut else self.device1
            tables = [table[:length] for table in self.tables[device]]
            x = block(x.to(device), *tables)
        return model.head(model.norm(x))
