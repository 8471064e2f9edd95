# %% wrong: four_times_the_weights
# Counts weight, gradient and two tensors of Adam, and measures nothing.

def peaks(layers, x, cut, device0, device1):
    def size(part):
        return 4 * sum(p.numel() * p.element_size() for p in part.parameters())

    return size(layers[:cut]), size(layers[cut:])


# %% wrong: what_is_held_at_the_end
# Asks what is in use when the steps are over, not what was in use at most.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: one_step
# Does one step, in which Adam has no state while forward runs.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(1):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: what_was_there_counts
# Does not take away what was on the devices before.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0], after[1]


# %% wrong: peak_never_reset
# Reads the highest peak that there ever was.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: the_layers_themselves
# Trains the layers that it is given, which are changed and gone from the CPU.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = layers
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: no_optimizer
# Leaves the optimizer's step out.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        trained.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: sgd
# Trains with plain SGD.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.01)
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: all_on_both
# Puts the whole model on both devices, one after the other.

def peaks(layers, x, cut, device0, device1):
    found = []
    for device in (device0, device1):
        gpu = torch.get_device_module(device)
        before = gpu.memory_allocated(device)
        gpu.reset_peak_memory_stats(device)
        trained = copy.deepcopy(layers).to(device)
        optimizer = torch.optim.Adam(trained.parameters())
        for _ in range(2):
            optimizer.zero_grad()
            trained(x.to(device)).square().mean().backward()
            optimizer.step()
        found.append(gpu.max_memory_allocated(device) - before)
    return tuple(found)


# %% wrong: forward_only
# Measures a forward pass without a gradient.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        with torch.no_grad():
            part1(part0(x.to(device0)).to(device1))
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% wrong: devices_of_the_notebook_only
# Uses the first device's number for both.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[0] - before[0]


# %% wrong: the_whole_copy_on_the_first_device
# Moves the whole copy to the first device before its second stage goes on to the second.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers).to(device0)
    part0, part1 = trained[:cut], trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]


# %% right: two_optimizers
# Has an optimizer for each device, as lesson 03 does.

def peaks(layers, x, cut, device0, device1):
    devices = (device0, device1)
    module = torch.get_device_module(device0.type)
    start = {d: module.memory_allocated(d) for d in devices}
    [module.reset_peak_memory_stats(d) for d in devices]
    first, second = copy.deepcopy(layers[:cut]).to(device0), copy.deepcopy(layers[cut:]).to(device1)
    optimizers = [torch.optim.Adam(part.parameters()) for part in (first, second) if list(part.parameters())]
    for step in range(2):
        for optimizer in optimizers:
            optimizer.zero_grad()
        hidden = first(x.to(device0))
        output = second(hidden.to(device1))
        loss = (output**2).mean()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
    return tuple(module.max_memory_allocated(d) - start[d] for d in devices)


# %% right: only_the_second_step_is_measured
# Sets the peak back before the second step, which is the larger one.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    base0, base1 = gpu.memory_allocated(device0), gpu.memory_allocated(device1)
    model = copy.deepcopy(layers)
    model[:cut].to(device0)
    model[cut:].to(device1)
    optimizer = torch.optim.Adam(model.parameters())

    def step():
        optimizer.zero_grad()
        y = model[cut:](model[:cut](x.to(device0)).to(device1))
        y.pow(2).mean().backward()
        optimizer.step()

    step()
    gpu.reset_peak_memory_stats(device0)
    gpu.reset_peak_memory_stats(device1)
    step()
    return [gpu.max_memory_allocated(device0) - base0, gpu.max_memory_allocated(device1) - base1]


# %% right: a_function_for_the_step
# Splits the work into small functions.

def train_twice(part0, part1, x, device0, device1):
    optimizer = torch.optim.Adam([*part0.parameters(), *part1.parameters()])
    for _ in (1, 2):
        part0.zero_grad()
        part1.zero_grad()
        out = part1(part0(x.to(device0)).to(device1))
        torch.mean(torch.square(out)).backward()
        optimizer.step()


def peaks(layers, x, cut, device0, device1):
    result = []
    gpus = [torch.get_device_module(d) for d in (device0, device1)]
    start = []
    for gpu, d in zip(gpus, (device0, device1)):
        gpu.synchronize(d)
        start.append(gpu.memory_allocated(d))
        gpu.reset_peak_memory_stats(d)
    twin = copy.deepcopy(layers)
    train_twice(twin[:cut].to(device0), twin[cut:].to(device1), x, device0, device1)
    for gpu, d, s in zip(gpus, (device0, device1), start):
        result.append(gpu.max_memory_allocated(d) - s)
    return tuple(result)


# %% right: layer_by_layer
# Moves each layer alone, and brings what was trained back to the CPU at the end.

def peaks(layers, x, cut, device0, device1):
    where = [device0] * cut + [device1] * (len(layers) - cut)
    gpu = torch.get_device_module(device0)
    held = {device: gpu.memory_allocated(device) for device in (device0, device1)}
    chain = [copy.deepcopy(layer).to(device) for layer, device in zip(layers, where)]
    for device in held:
        gpu.reset_peak_memory_stats(device)
    optimizer = torch.optim.Adam([p for layer in chain for p in layer.parameters()])
    for _ in range(2):
        optimizer.zero_grad()
        hidden = x
        for layer, device in zip(chain, where):
            hidden = layer(hidden.to(device))
        hidden.square().mean().backward()
        del hidden
        optimizer.step()
    most = [gpu.max_memory_allocated(device) - size for device, size in held.items()]
    [layer.cpu() for layer in chain]
    return most


# %% wrong: loss_on_a_device_by_name
# Computes the loss on the device that was device1 in the trials, by its name, so that another one holds a copy of the
# output.

def peaks(layers, x, cut, device0, device1):
    gpu = torch.get_device_module(device0)
    before = [gpu.memory_allocated(device) for device in (device0, device1)]
    for device in (device0, device1):
        gpu.reset_peak_memory_stats(device)
    trained = copy.deepcopy(layers)
    part0, part1 = trained[:cut].to(device0), trained[cut:].to(device1)
    optimizer = torch.optim.Adam(trained.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        part1(part0(x.to(device0)).to(device1)).to("simgpu:1").square().mean().backward()
        optimizer.step()
    after = [gpu.max_memory_allocated(device) for device in (device0, device1)]
    return after[0] - before[0], after[1] - before[1]
