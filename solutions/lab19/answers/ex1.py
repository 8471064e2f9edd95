# %% wrong: two_weights
# Does not see that embedding and head share a weight: each copy is trained with its own gradient.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: one_of_two_added
# Adds the head's gradient to the embedding's, but not the embedding's to the head's: the copies differ from the second step on.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        here.grad += at_the_head
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: added_twice
# Adds the second copy's gradient after the first has become the sum: the head gets its own twice.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        here.grad += there.grad.to(here.device)
        there.grad += here.grad.to(there.device)
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: never_cleared
# Lets gradients add up over the steps, because micro-batches add up, too.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: sum_over_stages
# Takes the mean over a quarter of the samples for the mean over all, because there are four GPUs.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), lambda o, t: 4 * loss_fn(o, t), devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: loss_of_all_rows
# Returns the sum over the samples and not their mean. The gradients are right.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss * len(tokens)

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: another_step_size
# Takes a step size of its own, ten times as large: right gradients, and other weights afterwards.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-2) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: devices_of_its_own
# Takes the first four GPUs that there are, and not those that it is given.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    devices = [torch.device("simgpu", number) for number in range(4)]
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: one_optimizer_forgotten
# Updates all stages but the last.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers[:-1]:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: adamw_decays
# Takes AdamW for another name of Adam: its decay moves every weight a little.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.AdamW(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: tables_from_the_cpu
# Leaves the rotary tables on the CPU, and brings them to the GPU in each forward pass.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.tables = model.cos.pin_memory(), model.sin.pin_memory()
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = (table[: x.shape[1]].to(x.device, non_blocking=True) for table in self.tables)
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: sgd
# Trains with SGD, as the labs before did.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.SGD(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: returns_no_loss
# Thinks that a step has nothing to return.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: gradients_on_the_cpu
# Copies the gradients to the CPU, so that they are all on one device.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad.cpu() for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: head_not_named
# Leaves embed.weight out: its gradient is on two devices.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("norm",):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients


# %% wrong: gradients_added_up_when_asked
# Adds the two gradients of the shared weight in gradients(), behind the update.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        found = {name: grad for stage in stages for name, grad in stage.named_gradients().items()}
        there = stages[-1].head.weight
        found["embed.weight"] = found["embed.weight"] + there.grad.to(devices[0])
        return found

    return step, gradients


# %% wrong: gradients_summed_once_more
# Updates with the sum of both gradients, and adds the two up once more whenever they are asked for.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    halves = []

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        here, there = stages[0].embed.weight, stages[-1].head.weight
        halves[:] = [here.grad.clone(), there.grad.clone()]
        here.grad += halves[1].to(here.device)
        there.grad += halves[0].to(there.device)
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        found = {name: grad for stage in stages for name, grad in stage.named_gradients().items()}
        found["embed.weight"] = halves[0] + halves[1].to(devices[0])
        return found

    return step, gradients


# %% wrong: names_of_the_stages
# Gives each gradient the name that its parameter has in the list of stages.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head, at_the_embedding = there.grad.to(here.device), here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in optimizers:
            optimizer.step()
        return loss

    def gradients():
        stack = nn.ModuleList(stages)
        return {name: p.grad for name, p in stack.named_parameters()}

    return step, gradients


# %% right: two_pipelines
# Two copies, one in each node, each a pipeline of two stages: gradients cross the network once a step.

class Half(nn.Module):
    def __init__(self, model, blocks, is_first):
        super().__init__()
        self.numbers, self.is_first = list(blocks), is_first
        self.blocks = nn.ModuleList(copy.deepcopy(model.blocks[n]) for n in blocks)
        self.table = copy.deepcopy(model.embed.weight)
        self.norm = None if is_first else copy.deepcopy(model.norm)
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())

    def forward(self, x):
        length = x.shape[1]
        if self.is_first:
            x = nn.functional.embedding(x, self.table)
        for block in self.blocks:
            x = block(x, self.cos[:length], self.sin[:length])
        return x if self.is_first else nn.functional.linear(self.norm(x), self.table)


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    rows = min(rows, 2)  # more do not fit: each GPU has half of the model
    gpu = torch.get_device_module(devices[0])
    blocks = len(model.blocks)
    middle = (blocks + 5) // 2 if blocks > 12 else blocks // 2
    copies = [devices[:2], devices[2:]]  # a pipeline in each node
    halves = [
        (Half(model, range(middle), True).to(first), Half(model, range(middle, blocks), False).to(second))
        for first, second in copies
    ]
    optimizers = [torch.optim.Adam(half.parameters(), lr=1e-3, foreach=False) for pair in halves for half in pair]
    streams = {device: [gpu.Stream(device) for _ in range(4)] for device in devices}

    def send(tensor, device, way):
        giving, taking = streams[tensor.device][way], streams[device][way]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            there = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return there, taking.record_event()

    def take(sent):
        tensor, event = sent
        here = gpu.current_stream(tensor.device)
        here.wait_event(event)
        tensor.record_stream(here)
        return tensor

    def add_up(one, two):
        """Both get the sum of both, and each way has its streams."""
        a, b = send(one, two.device, 2), send(two, one.device, 3)
        one += take(b)
        two += take(a)

    def step(tokens, targets):
        for pair in halves:
            for half in pair:
                half.zero_grad()
        parts = [
            (w.to(first).split(rows), t.to(second).split(rows))
            for w, t, (first, second) in zip(tokens.chunk(2), targets.chunk(2), copies)
        ]
        count, total = len(tokens) // rows, [0.0, 0.0]
        each = len(parts[0][0])
        made, back, waiting = [{}, {}], [{}, {}], [{}, {}]
        for turn in range(each + 2):
            for n, (first, second) in enumerate(copies):
                if turn < each:
                    out = halves[n][0](parts[n][0][turn])
                    made[n][turn] = out
                    waiting[n][turn] = send(out.detach(), second, 0)
                if 0 <= turn - 1 < each:
                    m = turn - 1
                    x = take(waiting[n].pop(m)).requires_grad_()
                    loss = loss_fn(halves[n][1](x), parts[n][1][m]) / count
                    loss.backward()
                    total[n] = total[n] + loss.detach()
                    back[n][m] = send(x.grad, first, 1)
                if turn >= 2:
                    made[n].pop(turn - 2).backward(take(back[n].pop(turn - 2)))
        for a, b in halves:
            add_up(a.table.grad, b.table.grad)
        for mine, other in zip(halves[0], halves[1]):
            for p, q in zip(mine.parameters(), other.parameters()):
                add_up(p.grad, q.grad)
        for optimizer in optimizers:
            optimizer.step()
        return total[0].to(devices[3]) + total[1]

    def gradients():
        found = {}
        for half in halves[0]:
            for n, block in zip(half.numbers, half.blocks):
                found.update({f"blocks.{n}.{k}": p.grad for k, p in block.named_parameters()})
        found["embed.weight"] = halves[0][0].table.grad
        found["norm.weight"] = halves[0][1].norm.weight.grad
        found["norm.bias"] = halves[0][1].norm.bias.grad
        return found

    return step, gradients


# %% right: a_v_of_eight_pieces
# Eight pieces in the shape of a V: GPU 0 has the first and the last, and so the shared weight in one place.

from utils.schedules import zero_bubble_v


class Piece(nn.Module):
    """Some blocks. The first piece has the embedding, the last the head; the weight of both is the GPT's own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.numbers, self.is_first, self.is_last = blocks, is_first, is_last
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else nn.Identity()
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())

    def forward(self, x):
        if self.is_first:
            x = nn.functional.embedding(x, self.table)
        x = x if self.blocks else x.clone()  # small models have pieces without a block
        for block in self.blocks:
            x = block(x, self.cos[: x.shape[1]], self.sin[: x.shape[1]])
        return nn.functional.linear(self.norm(x), self.table) if self.is_last else x


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """Eight pieces in the shape of a V: GPU 0 has the first and the last, and so the one weight in one place."""
    count = len(model.blocks)
    sizes = [2, 4, 4, 4, 3, 3, 4, 0] if count == 24 else [count * (n + 1) // 8 - count * n // 8 for n in range(8)]
    pieces, begin = [], 0
    for n, size in enumerate(sizes):
        place = devices[n if n < 4 else 7 - n]
        pieces.append(Piece(model, range(begin, begin + size), n == 0, n == 7).to(place))
        begin += size
    table = nn.Parameter(model.embed.weight.detach().to(devices[0]))
    pieces[0].table = pieces[7].table = table
    parameters = list(dict.fromkeys(p for piece in pieces for p in piece.parameters()))
    optimizer = torch.optim.Adam(parameters, lr=1e-3)

    def step(tokens, targets):
        optimizer.zero_grad()
        schedule = zero_bubble_v(4, len(tokens) // rows)
        loss = run(schedule, pieces, tokens.to(devices[0]), targets.to(devices[0]), loss_fn, devices)
        optimizer.step()
        return loss

    def gradients():
        found = {"embed.weight": table.grad}
        for piece in pieces:
            for number, block in zip(piece.numbers, piece.blocks, strict=True):
                found |= {f"blocks.{number}.{name}": p.grad for name, p in block.named_parameters()}
        return found | {f"norm.{name}": p.grad for name, p in pieces[-1].norm.named_parameters()}

    return step, gradients


# %% wrong: adam_made_in_each_step
# Makes Adam in each step, so that its moments and its count of steps begin at 0 each time.

class Stage(nn.Module):
    """Some blocks of a GPT, the first with the embedding, the last with the head, each with a weight of its own."""

    def __init__(self, model, blocks, is_first, is_last):
        super().__init__()
        self.embed = copy.deepcopy(model.embed) if is_first else None
        self.blocks = nn.ModuleList(model.blocks[number] for number in blocks)
        self.norm = model.norm if is_last else None
        self.head = copy.deepcopy(model.head) if is_last else None
        self.register_buffer("cos", model.cos.clone())
        self.register_buffer("sin", model.sin.clone())
        self.names = [f"blocks.{number}." for number in blocks]

    def forward(self, x):
        cos, sin = self.cos[: x.shape[1]], self.sin[: x.shape[1]]
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks:
            x = block(x, cos, sin)
        return x if self.head is None else self.head(self.norm(x))

    def named_gradients(self):
        found = {}
        for name, block in zip(self.names, self.blocks, strict=True):
            found |= {name + key: p.grad for key, p in block.named_parameters()}
        for name in ("embed", "norm"):
            if getattr(self, name) is not None:
                found |= {f"{name}.{key}": p.grad for key, p in getattr(self, name).named_parameters()}
        return found


def make_trainer(model, devices, loss_fn, cut=None, rows=4):
    """1F1B on four stages. `cut` has the blocks of each, `rows` is the number of samples in a micro-batch."""
    count = len(model.blocks)
    cut = cut or [count * (n + 1) // 4 - count * n // 4 for n in range(4)]
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        blocks = range(begin, begin + cut[rank])
        stages.append(Stage(model, blocks, rank == 0, rank == 3).to(device))
        begin += cut[rank]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // rows)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        # One weight on two devices: each copy gets the sum of both gradients, so both stay equal.
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head = there.grad.to(here.device)
        at_the_embedding = here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for stage in stages:
            torch.optim.Adam(stage.parameters(), lr=1e-3).step()
        return loss

    def gradients():
        return {name: grad for stage in stages for name, grad in stage.named_gradients().items()}

    return step, gradients
