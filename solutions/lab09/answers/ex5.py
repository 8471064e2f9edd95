# %% wrong: around_the_loop
# Puts one checkpoint around the loop, which computes all micro-batches again at once.

def recomputed(model, x, size):
    def loop(x):
        return torch.cat([model(piece) for piece in x.split(size)])

    return checkpoint(loop, x, use_reentrant=False)


# %% wrong: batch_never_moved
# Takes it that the batch is on the first device already.

def recomputed(model, x, size):
    outputs = []
    for piece in x.split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)


# %% wrong: detached
# Detaches what goes into the second stage, so that the first keeps nothing.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = model.part0(piece).detach().to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)


# %% wrong: first_part_only
# Recomputes the first stage only.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False)
        outputs.append(model.part1(hidden.to(model.device1)))
    return torch.cat(outputs)


# %% wrong: kept_on_the_cpu
# Keeps all activations in the memory of the CPU: nothing is computed again.

def recomputed(model, x, size):
    outputs = []
    with torch.autograd.graph.save_on_cpu():
        for piece in x.to(model.device0).split(size):
            outputs.append(model(piece))
    return torch.cat(outputs)


# %% wrong: last_only
# Keeps the output of the last micro-batch only.

def recomputed(model, x, size):
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False)
        output = checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False)
    return output


# %% wrong: move_inside
# Moves inside the second checkpoint, which then sees a tensor of the first device only, and keeps that one's random
# numbers: the second device's dropout drops others.

def recomputed(model, x, size):
    def second(hidden):
        return model.part1(hidden.to(model.device1))

    outputs = []
    for start in range(0, len(x), size):
        piece = x[start : start + size].to(model.device0)
        hidden = checkpoint(model.part0, piece, use_reentrant=False)
        outputs.append(checkpoint(second, hidden, use_reentrant=False))
    return torch.cat(outputs)


# %% wrong: newest_first
# Goes through the micro-batches from the last to the first, and joins them so.

def recomputed(model, x, size):
    outputs = []
    for piece in reversed(x.to(model.device0).split(size)):
        hidden = checkpoint(model.part0, piece, use_reentrant=False)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False))
    return torch.cat(outputs)


# %% wrong: no_grad
# Turns autograd off in the first stage, so that it keeps nothing.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        with torch.no_grad():
            hidden = model.part0(piece)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False))
    return torch.cat(outputs)


# %% wrong: nothing_recomputed
# Writes the ordinary pipeline.

def recomputed(model, x, size):
    return torch.cat([model(piece) for piece in x.split(size)])


# %% wrong: own_function_without_random_numbers
# Writes its own autograd.Function, which computes again without the random numbers of the first time: dropout drops
# others.

class Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stage, samples, *parameters):
        ctx.stage, ctx.parameters = stage, parameters
        ctx.save_for_backward(samples)
        return stage(samples)

    @staticmethod
    def backward(ctx, gradient):
        (samples,) = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1]
        samples = samples.detach()
        if wanted:
            samples.requires_grad_()
        with torch.enable_grad():
            output = ctx.stage(samples)
        inputs = ([samples] if wanted else []) + [p for p in ctx.parameters if p.requires_grad]
        found = iter(torch.autograd.grad(output, inputs, gradient, allow_unused=True))
        rows_gradient = next(found) if wanted else None
        return None, rows_gradient, *[next(found) if p.requires_grad else None for p in ctx.parameters]


def recomputed(model, x, size):
    parameters0, parameters1 = list(model.part0.parameters()), list(model.part1.parameters())
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = Recompute.apply(model.part0, piece, *parameters0)
        outputs.append(Recompute.apply(model.part1, hidden.to(model.device1), *parameters1))
    return torch.cat(outputs)


# %% wrong: random_numbers_not_kept
# Turns off preserve_rng_state to be faster: dropout drops other numbers the second time.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False, preserve_rng_state=False)
        hidden = hidden.to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False, preserve_rng_state=False))
    return torch.cat(outputs)


# %% wrong: reentrant
# Uses the old kind of checkpoint, which gives no gradients where its input needs none.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=True)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=True))
    return torch.cat(outputs)


# %% wrong: second_part_only
# Recomputes the second stage only.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = model.part0(piece).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)


# %% wrong: whole_batch
# Recomputes the whole batch at once, so all its activations are there again in the backward pass.

def recomputed(model, x, size):
    hidden = checkpoint(model.part0, x.to(model.device0), use_reentrant=False)
    return checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False)


# %% wrong: whole_model
# Puts one checkpoint around both stages, which keeps even less: it sees a tensor of the CPU, so both devices' dropout drops
# other numbers the second time.

def recomputed(model, x, size):
    return torch.cat([checkpoint(model, piece, use_reentrant=False) for piece in x.split(size)])


# %% wrong: whole_model_on_its_device
# Moves the samples, then puts one checkpoint around both stages: the least memory, and no pipeline in backward.

def recomputed(model, x, size):
    samples = x.to(model.device0).split(size)
    return torch.cat([checkpoint(model, piece, use_reentrant=False) for piece in samples])


# %% wrong: two_sweeps
# Recomputes each stage, and goes through all first stages before the second ones.

def recomputed(model, x, size):
    hidden = [checkpoint(model.part0, piece, use_reentrant=False) for piece in x.to(model.device0).split(size)]
    return torch.cat([checkpoint(model.part1, each.to(model.device1), use_reentrant=False) for each in hidden])


# %% wrong: looks_at_each_output
# Asks each micro-batch's output for a number, and so waits for it before the next is launched.

def recomputed(model, x, size):
    outputs = []
    for samples in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, samples, use_reentrant=False)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=False))
        assert not outputs[-1].isnan().any()
    return torch.cat(outputs)


# %% wrong: evaluation_mode
# Turns dropout off, so that both passes compute the same.

def recomputed(model, x, size):
    model.eval()
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)


# %% right: reentrant_with_gradients
# The old kind of checkpoint, with an input that needs gradients, so that the first stage gets its own.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        piece = piece.detach().requires_grad_()
        hidden = checkpoint(model.part0, piece, use_reentrant=True)
        outputs.append(checkpoint(model.part1, hidden.to(model.device1), use_reentrant=True))
    return torch.cat(outputs)


# %% right: checkpoint_sequential
# PyTorch's own function for a stack of layers. Its last third keeps what it makes.

from torch.utils.checkpoint import checkpoint_sequential


def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint_sequential(model.part0, 3, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint_sequential(model.part1, 3, hidden, use_reentrant=False))
    return torch.cat(outputs)


# %% right: own_function_with_random_numbers
# An autograd.Function that puts the random numbers of the first time back, and then those that it found.

class Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx, stage, samples, *parameters):
        ctx.gpu = torch.get_device_module(samples.device)
        ctx.stage, ctx.parameters, ctx.state = stage, parameters, ctx.gpu.get_rng_state(samples.device)
        ctx.save_for_backward(samples)
        return stage(samples)

    @staticmethod
    def backward(ctx, gradient):
        (samples,) = ctx.saved_tensors
        wanted = ctx.needs_input_grad[1]
        samples = samples.detach().requires_grad_(wanted)
        now = ctx.gpu.get_rng_state(samples.device)
        ctx.gpu.set_rng_state(ctx.state, samples.device)
        with torch.enable_grad():
            output = ctx.stage(samples)
        ctx.gpu.set_rng_state(now, samples.device)
        found = torch.autograd.grad(output, [*([samples] if wanted else []), *ctx.parameters], gradient)
        return None, *([] if wanted else [None]), *found


def recomputed(model, x, size):
    outputs = []
    for samples in x.to(model.device0).split(size):
        hidden = Again.apply(model.part0, samples, *model.part0.parameters())
        outputs.append(Again.apply(model.part1, hidden.to(model.device1), *model.part1.parameters()))
    return torch.cat(outputs)


# %% wrong: output_on_the_notebooks_device1
# Puts the output on the device1 of the notebook, though the model may end on another.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs).to(device1)


# %% wrong: outputs_on_the_notebooks_device1
# Collects the outputs on the device1 of the notebook. Where that is the first device, each copy to it holds up the
# next micro-batch.

def recomputed(model, x, size):
    outputs = []
    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(model.part0, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint(model.part1, hidden, use_reentrant=False).to(device1))
    return torch.cat(outputs).to(model.device1)


# %% wrong: outputs_noted_on_the_way
# Notes what each layer gives, to look at it later. The list keeps all that was not to be kept.

def recomputed(model, x, size):
    outputs, noted = [], []

    def through(stage, samples):
        for layer in stage:
            samples = layer(samples)
            noted.append(samples.detach())
        return samples

    for piece in x.to(model.device0).split(size):
        hidden = checkpoint(through, model.part0, piece, use_reentrant=False).to(model.device1)
        outputs.append(checkpoint(through, model.part1, hidden, use_reentrant=False))
    return torch.cat(outputs)
