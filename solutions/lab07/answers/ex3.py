# %% wrong: the_middle
# Counts layers, and takes the cut nearest to the middle.

def choose_cut(layers, x, allowed, device):
    return min(allowed, key=lambda cut: abs(cut - len(layers) / 2))


# %% wrong: even_weights
# Counts weights, and thinks that time follows them.

def choose_cut(layers, x, allowed, device):
    weights = [sum(p.numel() for p in layer.parameters()) for layer in layers]
    return min(allowed, key=lambda cut: max(sum(weights[:cut]), sum(weights[cut:])))


# %% wrong: allowed_ignored
# Takes the best of all cuts, also where it does not fit.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_(bool(seconds))
        with record(device) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return min(range(1, len(layers)), key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: one_off
# Counts the layers up to and with the cut on the first device.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_(bool(seconds))
        with record(device) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return min(allowed, key=lambda cut: max(sum(seconds[: cut + 1]), sum(seconds[cut + 1 :])))


# %% wrong: the_largest_sum
# Takes the cut whose slower stage is the slowest.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_(bool(seconds))
        with record(device) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return max(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: even_outputs
# Thinks that time follows the size of what layers give.

def choose_cut(layers, x, allowed, device):
    sizes = []
    for layer in layers:
        x = layer(x)
        sizes.append(x.numel())
    return min(allowed, key=lambda cut: max(sum(sizes[:cut]), sum(sizes[cut:])))


# %% wrong: first_allowed
# Takes the first cut that fits.

def choose_cut(layers, x, allowed, device):
    return allowed[0]


# %% wrong: faster_part
# Looks at the faster stage, and makes it as fast as it can be.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_(bool(seconds))
        with record(device) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return min(allowed, key=lambda cut: min(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: one_example
# Measures with one sample, where small layers take as long as large ones.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x[:1].to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_(bool(seconds))
        with record(device) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: forward_only
# Measures the forward passes, and thinks that backward takes the same share of each layer's time.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        with record(device) as timeline:
            hidden = layer(hidden)
        seconds.append(timeline.busy(device))
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: inputs_without_gradients
# Runs each layer alone, on an input that needs no gradient: half of backward is missing, and all of a Tanh's.

def choose_cut(layers, x, allowed, device):
    given, seconds = x.to(device), []
    for layer in copy.deepcopy(layers).to(device):
        with record(device) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        given = output.detach()
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: the_batch_wants_a_gradient
# Lets every layer compute the gradient of its input, the first one, too.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_()
        with record(device) as timeline:
            output = layer(given)
            output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% wrong: backward_only
# Measures the backward passes, and thinks that forward takes the same share of each layer's time.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        output = layer(hidden.detach().requires_grad_(bool(seconds)))
        with record(device) as timeline:
            output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device))
        hidden = output
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% right: both_parts_of_each_cut
# Runs both stages of each allowed cut, and measures them.

def choose_cut(layers, x, allowed, device):
    model = copy.deepcopy(layers).to(device)
    x = x.to(device)

    def seconds(part, given):
        with record(device) as timeline:
            output = part(given)
            output.sum().backward()
        return timeline.busy(device)

    best, least = None, float("inf")
    for cut in allowed:
        with torch.no_grad():
            crossing = model[:cut](x)
        slower = max(seconds(model[:cut], x), seconds(model[cut:], crossing.requires_grad_()))
        if slower < least:
            best, least = cut, slower
    return best


# %% right: running_sums
# Adds the seconds up with cumsum, and sorts the cuts.

def choose_cut(layers, x, allowed, device):
    times = []
    x = x.to(device)
    for n, layer in enumerate(copy.deepcopy(layers)):
        layer.to(device)
        x = x.detach()
        x.requires_grad = n > 0
        with record(device) as t:
            y = layer(x)
            y.mean().backward() if y.requires_grad else None
        times.append(t.busy(device))
        x = y
    before = torch.tensor(times).cumsum(0)
    slower = {cut: max(before[cut - 1].item(), (before[-1] - before[cut - 1]).item()) for cut in allowed}
    return sorted(allowed, key=slower.get)[0]


# %% right: forward_and_backward_of_the_whole
# Records one step of the whole model, and takes each kernel's module.

def choose_cut(layers, x, allowed, device):
    model = copy.deepcopy(layers).to(device)
    with record(device) as timeline:
        model(x.to(device)).sum().backward()
    seconds, last = [0.0] * len(model), 0
    for event in timeline.events:
        if event.is_kernel:
            name = event.module.rpartition(".")[2]
            last = int(name) if name.isdigit() else last
            seconds[last] += event.end - event.start
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))


# %% right: forward_and_backward_recorded_apart
# Records forward and backward of each stage in two timelines, and adds them up.

def choose_cut(layers, x, allowed, device):
    def busy(work):
        with record(device) as timeline:
            work()
        return timeline.busy(device)

    def slower(cut):
        part0, part1 = (copy.deepcopy(part).to(device) for part in (layers[:cut], layers[cut:]))
        crossed, y = [], []
        batch = x.to(device)
        first = busy(lambda: crossed.append(part0(batch)))
        received = crossed[0].detach().requires_grad_()
        second = busy(lambda: y.append(part1(received)))
        gradient = torch.ones_like(y[0])
        second += busy(lambda: y[0].backward(gradient))
        first += busy(lambda: crossed[0].backward(received.grad))
        return max(first, second)

    return min(allowed, key=slower)


# %% wrong: records_the_notebooks_device0
# Records the device0 of the notebook, on which nothing runs where another device is given.

def choose_cut(layers, x, allowed, device):
    trial, hidden = copy.deepcopy(layers).to(device), x.to(device)
    seconds = []
    for layer in trial:
        given = hidden.detach().requires_grad_(bool(seconds))  # the batch itself needs no gradient
        with record(device0) as timeline:
            output = layer(given)
            if output.requires_grad:
                output.backward(torch.ones_like(output))
        seconds.append(timeline.busy(device0))
        hidden = output
    return min(allowed, key=lambda cut: max(sum(seconds[:cut]), sum(seconds[cut:])))
