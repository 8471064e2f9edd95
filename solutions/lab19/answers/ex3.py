# %% wrong: equal_blocks
# Gives each GPU as many blocks, and forgets that the head is as much work as five of them.

def that_is_fast(model, devices, loss_fn):
    return make_trainer(model, devices, loss_fn, rows=4)


# %% wrong: too_many_small_ones
# Takes micro-batches of one sample for the smallest bubble, and pays for every launch.

def that_is_fast(model, devices, loss_fn):
    cut = [7, 7, 7, 3] if len(model.blocks) == 24 else None
    return make_trainer(model, devices, loss_fn, cut=cut, rows=1)


# %% wrong: recomputes_all
# Computes everything twice to save memory that is not short.

class Twice(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, *inputs):
        return torch.utils.checkpoint.checkpoint(self.block, *inputs, use_reentrant=False)


def that_is_fast(model, devices, loss_fn):
    cut = [7, 7, 7, 3] if len(model.blocks) == 24 else None
    for number, block in enumerate(model.blocks):
        model.blocks[number] = Twice(block)
    step, gradients = make_trainer(model, devices, loss_fn, cut=cut, rows=4)
    return step, lambda: {name.replace(".block.", "."): grad for name, grad in gradients().items()}


# %% wrong: looks_busy
# Fills idle time with needless products.

def that_is_fast(model, devices, loss_fn):
    cut = [7, 7, 7, 3] if len(model.blocks) == 24 else None
    step, gradients = make_trainer(model, devices, loss_fn, cut=cut, rows=4)
    idle = [torch.empty(4096, 4096, device=device) for device in devices] if cut else []

    def busy(tokens, targets):
        loss = step(tokens, targets)
        for each in idle:
            for _ in range(20):
                each @ each
        return loss

    return busy, gradients


# %% wrong: half_of_the_batch
# Trains on every second sample, which takes half of the time.

def that_is_fast(model, devices, loss_fn):
    cut = [7, 7, 7, 3] if len(model.blocks) == 24 else None
    step, gradients = make_trainer(model, devices, loss_fn, cut=cut, rows=4)
    return lambda tokens, targets: step(tokens[::2], targets[::2]), gradients


# %% wrong: no_adam_when_large
# Leaves out Adam's step for a large model, whose values are not compared.

def that_is_fast(model, devices, loss_fn):
    large = model.embed.weight.shape[1] > 500
    cut = [7, 7, 7, 3] if len(model.blocks) == 24 else [len(model.blocks) // 4] * 4
    cut[0] += len(model.blocks) - sum(cut)
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        stages.append(Stage(model, range(begin, begin + cut[rank]), rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(tokens, targets):
        for stage in stages:
            stage.zero_grad()
        lists = one_f_one_b(4, len(tokens) // 4)
        loss = run(lists, stages, tokens.to(devices[0]), targets.to(devices[-1]), loss_fn, devices)
        here, there = stages[0].embed.weight, stages[-1].head.weight
        at_the_head, at_the_embedding = there.grad.to(here.device), here.grad.to(there.device)
        here.grad += at_the_head
        there.grad += at_the_embedding
        for optimizer in [] if large else optimizers:
            optimizer.step()
        return loss

    return step, lambda: {name: grad for stage in stages for name, grad in stage.named_gradients().items()}


# %% right: the_head_alone_is_five
# Works the cut out: 24 blocks, and five more for the head.

def that_is_fast(model, devices, loss_fn):
    count = len(model.blocks)
    cut = [round((count + 5) / 4)] * 3 if count == 24 else None
    cut = cut and [*cut, count - sum(cut)]
    return make_trainer(model, devices, loss_fn, cut=cut, rows=4)


# %% right: rows_of_two
# Smaller micro-batches, and a smaller bubble.

def that_is_fast(model, devices, loss_fn):
    cut = [7, 7, 7, 3] if len(model.blocks) == 24 else None
    return make_trainer(model, devices, loss_fn, cut=cut, rows=2)


# %% wrong: cuts_by_heart
# Writes down how the blocks of the models in the trials are cut, so that a model with more blocks loses some.

def that_is_fast(model, devices, loss_fn):
    # The head is as much work as five blocks. Nothing is left over if the number of blocks is another one.
    count = len(model.blocks)
    cut = [7, 7, 7, 3] if count == 24 else [2, 2, 2, 1]
    return make_trainer(model, devices, loss_fn, cut=cut, rows=4)
