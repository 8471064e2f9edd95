# %% wrong: one_way_only
# Counts the copy in the forward pass, and forgets the gradient.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: always_both_ways
# Lets a gradient cross back also where no parameter needs it.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: one_latency
# Adds the latency once, for both copies.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return latency + copies * outputs[0].nbytes / bandwidth


# %% wrong: numbers_not_bytes
# Divides how many numbers there are by the bandwidth.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0].numel() / bandwidth)


# %% wrong: four_bytes_always
# Thinks that every number has four bytes.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + 4 * outputs[0].numel() / bandwidth)


# %% wrong: input_of_the_part
# Takes the input of the last part for what crosses.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(inputs[0]))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: weights_too
# Thinks that the weights of the part cross, too.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + (outputs[0].nbytes + sum(p.nbytes for p in trial.get_submodule(last).parameters())) / bandwidth)


# %% wrong: no_copy_of_the_model
# Runs the model itself, so its running statistics move and the hook stays.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = model
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: left_in_evaluation_mode
# Switches to evaluation mode to keep the statistics, and does not switch back.

def copy_seconds(model, last, x, bandwidth, latency):
    outputs = []
    handle = model.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    model.eval()
    model(x)
    handle.remove()
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: one_mode_for_all
# Puts the whole model into the mode that it had itself, also the parts that were in another one.

def copy_seconds(model, last, x, bandwidth, latency):
    outputs, was = [], model.training
    handle = model.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    model.eval()
    model(x)
    model.train(was)
    handle.remove()
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)



# %% wrong: no_grad
# Runs the model under no_grad, and then asks whether the output needs a gradient.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    with torch.no_grad():
        trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: any_parameter_of_the_model
# Asks whether anything of the whole model is trained.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if any(p.requires_grad for p in model.parameters()) else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: only_the_last_part
# Asks only the last part whether it is trained, and not those before it.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if any(p.requires_grad for p in model.get_submodule(last).parameters()) else 1
    return copies * (latency + outputs[0].nbytes / bandwidth)


# %% wrong: one_example
# Counts the bytes of one example.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    copies = 2 if outputs[0].requires_grad else 1
    return copies * (latency + outputs[0][0].nbytes / bandwidth)


# %% wrong: parts_of_last_forgotten
# Walks through named_modules up to last, and looks at each module's own parameters. What lies *inside* of
# last comes after it in this order, and is never looked at.

def copy_seconds(model, last, x, bandwidth, latency):
    trained = False
    for name, module in model.named_modules():
        trained = trained or any(p.requires_grad for p in module.parameters(recurse=False))
        if name == last:
            break
    twin = copy.deepcopy(model).eval()
    outputs = []
    twin.get_submodule(last).register_forward_hook(lambda module, args, output: outputs.append(output))
    with torch.no_grad():
        twin(x)
    one = latency + outputs[0].nbytes / bandwidth
    return one + one if trained else one


# %% right: hook_removed_state_restored
# Notes the mode of each part, runs in evaluation mode, and gives each its mode back.

def copy_seconds(model, last, x, bandwidth, latency):
    were = {part: part.training for part in model.modules()}
    found = {}

    def note(part, inputs, output):
        found["bytes"] = output.numel() * output.element_size()
        found["copies"] = 1 + int(output.requires_grad)

    handle = model.get_submodule(last).register_forward_hook(note)
    try:
        model.eval()
        model(x)
    finally:
        handle.remove()
        for part, was in were.items():
            part.training = was
    return found["copies"] * (latency + found["bytes"] / bandwidth)


# %% right: on_meta
# Asks PyTorch's meta device for the shape, which computes nothing.

def copy_seconds(model, last, x, bandwidth, latency):
    twin = copy.deepcopy(model).to("meta")
    seen = []
    twin.get_submodule(last).register_forward_hook(lambda m, i, o: seen.append(o))
    twin(x.to("meta"))
    out = seen[0]
    seconds = latency + out.nbytes / bandwidth
    return seconds + seconds if out.requires_grad else seconds


# %% right: walks_through_the_graph
# Asks the graph behind the output, not its flag, whether a gradient comes back.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)
    crossing = None

    def remember(part, inputs, output):
        nonlocal crossing
        crossing = output

    handle = trial.get_submodule(last).register_forward_hook(remember)
    trial(x)
    handle.remove()
    size = crossing.untyped_storage().nbytes() if crossing.is_contiguous() else crossing.nbytes
    forward = latency + size / bandwidth
    backward = forward if crossing.grad_fn is not None else 0.0
    return forward + backward


# %% wrong: evaluation_mode_is_no_training
# Thinks that no gradient comes back in evaluation mode.

def copy_seconds(model, last, x, bandwidth, latency):
    trial = copy.deepcopy(model)  # a pass changes running statistics: it is done with a copy
    outputs = []
    trial.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    trial(x)
    [output] = outputs
    copies = 2 if output.requires_grad and model.training else 1
    return copies * (latency + output.numel() * output.element_size() / bandwidth)


# %% wrong: modes_of_the_children_only
# Runs the model itself in evaluation mode, and remembers the modes of its direct children, not of what lies deeper.

def copy_seconds(model, last, x, bandwidth, latency):
    mode, modes = model.training, {child: child.training for child in model.children()}
    outputs = []
    handle = model.get_submodule(last).register_forward_hook(lambda part, inputs, output: outputs.append(output))
    model.eval()  # so that no running statistics move
    model(x)
    handle.remove()
    model.train(mode)
    for child, training in modes.items():
        child.train(training)
    [output] = outputs
    copies = 2 if output.requires_grad else 1
    return copies * (latency + output.numel() * output.element_size() / bandwidth)
