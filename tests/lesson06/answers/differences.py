# %% wrong: signed
# Takes the largest difference without its sign away, so a lower output counts as none.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append({"output": {"": output}, "gradients": gradients, "buffers": dict(model.named_buffers())})
    one, two = found
    return {
        kind: max((two[kind][name].cpu() - a.cpu()).max().item() for name, a in tensors.items())
        for kind, tensors in one.items()
    }


# %% wrong: mean
# Takes the mean difference, in which one wrong number among many is small.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append({"output": {"": output}, "gradients": gradients, "buffers": dict(model.named_buffers())})
    one, two = found
    return {
        kind: max((two[kind][name].cpu() - a.cpu()).abs().float().mean().item() for name, a in tensors.items())
        for kind, tensors in one.items()
    }


# %% wrong: old_gradients
# Forgets that backward adds to the gradients that are there.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append({"output": {"": output}, "gradients": gradients, "buffers": dict(model.named_buffers())})
    one, two = found
    return {
        kind: max((two[kind][name].cpu() - a.cpu()).abs().max().item() for name, a in tensors.items())
        for kind, tensors in one.items()
    }


# %% wrong: weights_for_gradients
# Compares the parameters, which are equal from the beginning.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        parameters = dict(model.named_parameters())
        found.append({"output": {"": output}, "gradients": parameters, "buffers": dict(model.named_buffers())})
    one, two = found
    return {
        kind: max((two[kind][name].cpu() - a.cpu()).abs().max().item() for name, a in tensors.items())
        for kind, tensors in one.items()
    }


# %% wrong: evaluation_mode
# Thinks that models can be compared in evaluation mode only, and switches both to it.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        model.eval()
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append({"output": {"": output}, "gradients": gradients, "buffers": dict(model.named_buffers())})
    one, two = found
    return {
        kind: max((two[kind][name].cpu() - a.cpu()).abs().max().item() for name, a in tensors.items())
        for kind, tensors in one.items()
    }


# %% wrong: in_order
# Pairs tensors by their order, which is that in which the parts were registered.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        gradients = [p.grad for p in model.parameters()]
        found.append({"output": [output], "gradients": gradients, "buffers": list(model.buffers())})
    one, two = found
    return {
        kind: max((a.cpu() - b.cpu()).abs().max().item() for a, b in zip(one[kind], two[kind])) for kind in one
    }


# %% wrong: on_their_devices
# Thinks that tensors of two devices can be subtracted.

def differences(whole, split, images):
    found = []
    for model in (whole, split):
        model.zero_grad()
        output = model(images.to(next(model.parameters()).device))
        output.square().mean().backward()
        gradients = {name: p.grad for name, p in model.named_parameters()}
        found.append({"output": {"": output}, "gradients": gradients, "buffers": dict(model.named_buffers())})
    one, two = found
    return {
        kind: max((two[kind][name] - a).abs().max().item() for name, a in tensors.items())
        for kind, tensors in one.items()
    }


# %% wrong: only_running_mean
# Returns tensors, and thinks that a BatchNorm has one buffer.

def differences(whole, split, images):
    outputs = []
    for model in (whole, split):
        model.zero_grad()
        outputs.append(model(images.to(next(model.parameters()).device)))
        outputs[-1].square().mean().backward()
    mine, theirs = dict(whole.named_parameters()), dict(split.named_parameters())
    means = [
        {name: b for name, b in model.named_buffers() if name.endswith("running_mean")} for model in (whole, split)
    ]
    return {
        "output": (outputs[0].cpu() - outputs[1].cpu()).abs().max(),
        "gradients": max((mine[n].grad.cpu() - theirs[n].grad.cpu()).abs().max() for n in mine),
        "buffers": max((means[0][n].cpu() - means[1][n].cpu()).abs().max() for n in means[0]),
    }


# %% right: step_by_step
# Copies everything to the CPU first, and compares in three loops.

def differences(whole, split, images):
    def run(model):
        for p in model.parameters():
            p.grad = None
        device = next(iter(model.state_dict().values())).device
        output = model(images.to(device))
        (output**2).mean().backward()
        gradients = {name: p.grad.cpu() for name, p in model.named_parameters()}
        buffers = {name: b.cpu().clone() for name, b in model.named_buffers()}
        return output.detach().cpu(), gradients, buffers

    output, gradients, buffers = run(whole)
    output2, gradients2, buffers2 = run(split)
    largest = {"output": float(abs(output - output2).max()), "gradients": 0.0, "buffers": 0.0}
    for name in gradients:
        largest["gradients"] = max(largest["gradients"], float(abs(gradients[name] - gradients2[name]).max()))
    for name in buffers:
        largest["buffers"] = max(largest["buffers"], float(abs(buffers[name] - buffers2[name]).max()))
    return largest


# %% right: models_on_the_cpu
# Runs both where they are, and then compares copies of the models.

def differences(whole, split, images):
    outputs, models = [], []
    for model in (whole, split):
        model.zero_grad(set_to_none=True)
        output = model(images.to(next(model.parameters()).device))
        torch.mean(output * output).backward()
        outputs.append(output.detach().cpu())
        models.append(model)
    a, b = models

    def largest(pairs):
        return max(torch.max(torch.abs(x.cpu() - y.cpu())).item() for x, y in pairs)

    return {
        "output": largest([outputs]),
        "gradients": largest([(p.grad, b.get_parameter(n).grad) for n, p in a.named_parameters()]),
        "buffers": largest([(x, b.get_buffer(n)) for n, x in a.named_buffers()]),
    }
