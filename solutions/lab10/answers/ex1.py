# %% wrong: received_wants_no_gradient
# Forgets that what was received has to want a gradient, or there is none to send back.

def stage_forward(stage, received):
    output = stage(received)
    return (received, output), output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    output.backward(gradient)
    return received.grad


# %% wrong: output_sent_with_its_graph
# Sends the output as it is, with the whole graph behind it.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    output = stage(received)
    return (received, output), output


def stage_backward(kept, gradient):
    received, output = kept
    output.backward(gradient)
    return received.grad


# %% wrong: backward_without_the_gradient
# Starts the backward pass from the sum of the output, and not from the gradient that came back.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    output = stage(received)
    return (received, output), output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    output.sum().backward()
    return received.grad


# %% wrong: detached_is_kept
# Cuts on the wrong side: keeps the output without its graph, so the stage learns nothing.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    sent = stage(received).detach().requires_grad_()
    return (received, sent), sent.detach()


def stage_backward(kept, gradient):
    received, output = kept
    output.backward(gradient)
    return received.grad if received.grad is not None else gradient


# %% wrong: one_place_for_all
# Keeps the last micro-batch only, with the stage: fine as long as only one is in flight.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    stage_forward.received, stage_forward.output = received, stage(received)
    return None, stage_forward.output.detach()


def stage_backward(kept, gradient):
    stage_forward.output.backward(gradient, retain_graph=True)
    return stage_forward.received.grad


# %% wrong: zeroes_the_gradients
# Clears the gradients before each backward pass, and loses those of the other micro-batches.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    output = stage(received)
    parameters = list(stage.parameters()) if isinstance(stage, nn.Module) else []
    return (received, output, parameters), output.detach()


def stage_backward(kept, gradient):
    received, output, parameters = kept
    for p in parameters:
        p.grad = None
    output.backward(gradient)
    return received.grad


# %% wrong: graph_retained
# Has met "backward through the graph a second time", and keeps every graph from now on.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    output = stage(received)
    return (received, output), output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    output.backward(gradient, retain_graph=True)
    return received.grad


# %% wrong: every_input_wants_a_gradient
# Does not think of a first stage, which receives tokens.

def stage_forward(stage, received):
    received = received.detach().requires_grad_()
    output = stage(received)
    return (received, output), output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    output.backward(gradient)
    return received.grad


# %% wrong: gradient_of_the_output_returned
# Sends back what came, as if the stage were not there.

def stage_forward(stage, received):
    if received.is_floating_point():
        received = received.detach().requires_grad_()
    output = stage(received)
    return output, output.detach()


def stage_backward(kept, gradient):
    kept.backward(gradient)
    return gradient


# %% wrong: computed_again_with_other_random_numbers
# Keeps the input only, and computes the stage again when the gradient is there: dropout drops other numbers.

def stage_forward(stage, received):
    with torch.no_grad():
        sent = stage(received)
    return [stage, received.detach()], sent


def stage_backward(kept, gradient):
    stage, received = kept
    received = received.requires_grad_(received.is_floating_point())
    output = stage(received)
    output.backward(gradient)
    return received.grad


# %% wrong: cleared_before_each_forward_pass
# Clears the stage's gradients before each forward pass, as a training step does.

def stage_forward(stage, received):
    stage.zero_grad()
    received = received.detach()
    if received.is_floating_point():
        received.requires_grad_()
    output = stage(received)
    return (received, output), output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    output.backward(gradient)
    return received.grad


# %% wrong: zeros_for_whole_numbers
# Sends zeros back where there is no gradient, so that something of the right shape always goes back.

def stage_forward(stage, received):
    received = received.detach()
    if received.is_floating_point():
        received.requires_grad_()
    output = stage(received)
    return [received, output], output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    kept.clear()
    output.backward(gradient)
    return torch.zeros(received.shape) if received.grad is None else received.grad


# %% wrong: a_queue
# Takes it that micro-batches go back in the order in which they came.

waiting = []


def stage_forward(stage, received):
    received = received.detach()
    if received.is_floating_point():
        received.requires_grad_()
    waiting.append((received, stage(received)))
    return None, waiting[-1][1].detach()


def stage_backward(kept, gradient):
    received, output = waiting.pop(0)
    output.backward(gradient)
    return received.grad


# %% right: with_data
# Marks the given tensor itself, and sends the values by a copy.

def stage_forward(stage, received):
    wants = received.dtype.is_floating_point
    if wants:
        received.requires_grad_(True)
    output = stage(received)
    return {"input": received if wants else None, "output": output}, output.detach().clone()


def stage_backward(kept, gradient):
    torch.autograd.backward([kept["output"]], [gradient])
    return None if kept["input"] is None else kept["input"].grad


# %% right: computes_again
# Keeps the input and the random numbers that came next, and computes the stage again when the gradient is there.

def stage_forward(stage, received):
    gpu, device = torch.get_device_module(received.device), received.device
    state = gpu.get_rng_state(device)
    with torch.no_grad():
        sent = stage(received)
    return [stage, received.detach(), gpu, device, state], sent


def stage_backward(kept, gradient):
    stage, received, gpu, device, state = kept
    received = received.requires_grad_(received.is_floating_point())
    now = gpu.get_rng_state(device)
    gpu.set_rng_state(state, device)
    output = stage(received)
    gpu.set_rng_state(now, device)
    output.backward(gradient)
    return received.grad


# %% right: a_closure
# Keeps a function that runs the backward pass.

def stage_forward(stage, received):
    leaf = received.clone().detach()
    if not leaf.dtype.is_floating_point:
        output = stage(leaf)
    else:
        output = stage(leaf.requires_grad_())

    def way_back(gradient):
        output.backward(gradient)
        return leaf.grad

    return way_back, output.data


def stage_backward(kept, gradient):
    return kept(gradient)


# %% right: adds_by_hand
# Asks for all gradients with torch.autograd.grad, those of the stage's parameters too, and adds them itself.

def stage_forward(stage, received):
    leaf = received.detach()
    leaf.requires_grad_(leaf.is_floating_point())
    output = stage(leaf)
    return {"stage": stage, "leaf": leaf, "output": output}, output.detach()


def stage_backward(kept, gradient):
    parameters, leaf = list(kept["stage"].parameters()), kept["leaf"]
    wanted = [*parameters, leaf] if leaf.requires_grad else parameters
    found = torch.autograd.grad(kept.pop("output"), wanted, gradient)
    for p, g in zip(parameters, found):
        p.grad = g if p.grad is None else p.grad + g
    return found[-1] if leaf.requires_grad else None


# %% wrong: multiplied_by_the_gradient
# Goes backward from the sum of output times gradient, though the last stage is given none.

def stage_forward(stage, received):
    received = received.detach()
    if received.is_floating_point():
        received.requires_grad_()
    output = stage(received)
    return (received, output), output.detach()


def stage_backward(kept, gradient):
    received, output = kept
    (output * gradient).sum().backward()
    return received.grad


# %% wrong: three_places_in_turn
# Keeps the graphs in three places that are used in turn, so that a fourth micro-batch on its way takes the place of
# the first.

PLACES, TURN = [None] * 3, [0]


def stage_forward(stage, received):
    received = received.detach()
    if received.is_floating_point():
        received.requires_grad_()
    output = stage(received)
    place = TURN[0] % len(PLACES)
    PLACES[place] = received, output
    TURN[0] += 1
    return place, output.detach()


def stage_backward(kept, gradient):
    received, output = PLACES[kept]
    output.backward(gradient)
    return received.grad
