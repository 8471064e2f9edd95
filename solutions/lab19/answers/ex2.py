# %% wrong: large_micro_batches
# Thinks that large micro-batches raise utilization, and forgets how many of them are in flight.

def that_fits(model, devices, loss_fn):
    return make_trainer(model, devices, loss_fn, rows=16)


# %% wrong: activations_forgotten
# Plans with weights and Adam only, and gives the first GPU most of the blocks: it has the most micro-batches in flight.

def that_fits(model, devices, loss_fn):
    count = len(model.blocks)
    cut = [count - 3 * (count // 8), *[count // 8] * 3] if count == 24 else None
    return make_trainer(model, devices, loss_fn, cut=cut, rows=4)


# %% wrong: number_of_micro_batches
# Multiplies by the number of micro-batches, because each brings only its share of the gradient.

def that_fits(model, devices, loss_fn):
    return make_trainer(model, devices, lambda output, target: 8 * loss_fn(output, target), rows=2)


# %% wrong: tells_the_loss
# Prints the loss of each step, which has no value where only shapes are kept.

def that_fits(model, devices, loss_fn):
    step, gradients = make_trainer(model, devices, loss_fn, rows=2)

    def telling(tokens, targets):
        loss = step(tokens, targets)
        print(f"loss {loss.item():.3f}")
        return loss

    return telling, gradients


# %% wrong: four_whole_copies
# Puts a copy on each GPU, each with all of Adam's state: 16 bytes a weight are 5.7 GB.

def that_fits(model, devices, loss_fn):
    copies = [copy.deepcopy(model).to(device) for device in devices]
    optimizers = [torch.optim.Adam(each.parameters(), lr=1e-3) for each in copies]

    def step(tokens, targets):
        losses = []
        for each, device, x, y in zip(copies, devices, tokens.chunk(4), targets.chunk(4), strict=True):
            each.zero_grad()
            for a, b in zip(x.to(device).split(2), y.to(device).split(2), strict=True):
                loss = loss_fn(each(a), b) * len(a) / len(tokens)
                loss.backward()
                losses.append(loss.detach().to(devices[0]))
        for same in zip(*(each.parameters() for each in copies), strict=True):
            total = sum(p.grad.to(devices[0]) for p in same)
            for p in same:
                p.grad.copy_(total)
        for optimizer in optimizers:
            optimizer.step()
        return sum(losses)

    def gradients():
        return {name: p.grad for name, p in copies[0].named_parameters()}

    return step, gradients


# %% wrong: only_a_step
# Returns the step alone.

def that_fits(model, devices, loss_fn):
    return make_trainer(model, devices, loss_fn, rows=2)[0]


# %% wrong: always_sixteen
# Cuts any batch into 16 micro-batches: 64 samples fit by luck, and with a batch twice as large each keeps twice as much.

class SixteenOf:
    def __rfloordiv__(self, rows):
        return 16


def that_fits(model, devices, loss_fn):
    return make_trainer(model, devices, loss_fn, rows=SixteenOf())


# %% right: fewer_blocks_first
# Gives the first GPU fewer blocks, because it has the most in flight.

def that_fits(model, devices, loss_fn):
    cut = [5, 6, 7, 6] if len(model.blocks) == 24 else None
    return make_trainer(model, devices, loss_fn, cut=cut, rows=2)


# %% right: one_row_at_a_time
# The smallest micro-batches there are. Slow, and small.

def that_fits(model, devices, loss_fn):
    return make_trainer(model, devices, loss_fn, rows=1)


# %% right: four_copies_with_shards
# Four copies of the whole model. Each updates a quarter of the weights and sends them to the others (ZeRO-1). It fits; it is too slow for exercise 3.

def that_fits(model, devices, loss_fn, rows=2):
    """Four copies. Each adds up and updates a quarter of the parameters, and sends what it has updated (ZeRO-1)."""
    gpu = torch.get_device_module(devices[0])
    copies = [copy.deepcopy(model).to(device) for device in devices]
    names = [name for name, _ in copies[0].named_parameters()]
    every = [list(each.parameters()) for each in copies]
    load, owner = [0] * 4, []
    for p in every[0]:
        owner.append(load.index(min(load)))
        load[owner[-1]] += p.numel()
    optimizers = [
        torch.optim.Adam([p for p, o in zip(every[n], owner) if o == n], lr=1e-3, foreach=False) for n in range(4)
    ]
    streams = {(a, b): (gpu.Stream(a), gpu.Stream(b)) for a in devices for b in devices if a != b}

    def send(tensor, device):
        giving, taking = streams[tensor.device, device]
        giving.wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(giving), gpu.stream(taking):
            there = tensor.to(device, non_blocking=True)
        tensor.record_stream(giving)
        return there, taking.record_event()

    def take(tensor, event):
        here = gpu.current_stream(tensor.device)
        here.wait_event(event)
        tensor.record_stream(here)
        return tensor

    def step(tokens, targets):
        for each in copies:
            each.zero_grad()
        shares = [
            (w.to(d).split(rows), t.to(d).split(rows)) for w, t, d in zip(tokens.chunk(4), targets.chunk(4), devices)
        ]
        count, losses = len(tokens) // rows, [0.0] * 4
        for m in range(count // 4):
            for n in range(4):
                loss = loss_fn(copies[n](shares[n][0][m]), shares[n][1][m]) / count
                loss.backward()
                losses[n] = losses[n] + loss.detach()
        for begin in range(0, len(names), 16):  # a few at a time: activations in flight take memory
            some = range(begin, min(begin + 16, len(names)))
            coming = [[send(every[n][k].grad, devices[owner[k]]) for n in range(4) if n != owner[k]] for k in some]
            for k, arrivals in zip(some, coming):
                for arrival in arrivals:
                    every[owner[k]][k].grad += take(*arrival)
            del coming, arrivals, arrival
        for optimizer in optimizers:
            optimizer.step()
        with torch.no_grad():
            for begin in range(0, len(names), 16):
                coming = []
                for k in range(begin, min(begin + 16, len(names))):
                    new = every[owner[k]][k].detach()
                    coming += [(every[n][k], send(new, devices[n])) for n in range(4) if n != owner[k]]
                for old, arrival in coming:
                    old.copy_(take(*arrival))
                del coming, arrival
        return sum(loss.to(devices[0]) for loss in losses)

    def gradients():
        return {name: every[o][k].grad for k, (name, o) in enumerate(zip(names, owner))}

    return step, gradients


# %% wrong: adam_made_in_each_step
# Makes Adam in each step, to save the memory of its state: moments and the count of steps begin at 0 each time.

def that_fits(model, devices, loss_fn):
    blocks = len(model.blocks)
    home = [devices[number * 4 // blocks] for number in range(blocks)]
    for block, device in zip(model.blocks, home):
        block.to(device)
    model.embed.to(devices[0])
    model.norm.to(devices[0])
    model.head.weight = model.embed.weight
    tables = {device: (model.cos.to(device), model.sin.to(device)) for device in devices}

    def forward(tokens):
        x = model.embed(tokens.to(devices[0]))
        for block, device in zip(model.blocks, home):
            cos, sin = tables[device]
            x = block(x.to(device), cos[: tokens.shape[1]], sin[: tokens.shape[1]])
        return model.head(model.norm(x.to(devices[0])))

    def step(tokens, targets):
        adam = torch.optim.Adam(model.parameters(), lr=1e-3)
        adam.zero_grad()
        total = 0
        for some_tokens, some_targets in zip(tokens.split(2), targets.split(2)):
            loss = loss_fn(forward(some_tokens), some_targets.to(devices[0])) * len(some_tokens) / len(tokens)
            loss.backward()
            total = total + loss.detach()
        adam.step()
        return total

    def gradients():
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    return step, gradients


# %% wrong: six_blocks_each
# Counts on 24 blocks, six for each GPU: with fewer, some GPUs have none.

def that_fits(model, devices, loss_fn):
    blocks = len(model.blocks)
    home = [devices[number // 6] for number in range(blocks)]
    for block, device in zip(model.blocks, home):
        block.to(device)
    model.embed.to(devices[0])
    model.norm.to(devices[0])
    model.head.weight = model.embed.weight
    tables = {device: (model.cos.to(device), model.sin.to(device)) for device in devices}
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)

    def forward(tokens):
        x = model.embed(tokens.to(devices[0]))
        for block, device in zip(model.blocks, home):
            cos, sin = tables[device]
            x = block(x.to(device), cos[: tokens.shape[1]], sin[: tokens.shape[1]])
        return model.head(model.norm(x.to(devices[0])))

    def step(tokens, targets):
        adam.zero_grad()
        total = 0
        for some_tokens, some_targets in zip(tokens.split(2), targets.split(2)):
            loss = loss_fn(forward(some_tokens), some_targets.to(devices[0])) * len(some_tokens) / len(tokens)
            loss.backward()
            total = total + loss.detach()
        adam.step()
        return total

    def gradients():
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    return step, gradients
