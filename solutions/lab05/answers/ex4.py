# %% wrong: plain
# Waits with the update until backward is done, as the plain step does.

def lean_step(model, lr):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)

    def step(loss):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


# %% wrong: one_after_another
# Avoids what Adam allocates for all parameters at once, but keeps all gradients until the end.

def lean_step(model, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr, foreach=False)

    def step(loss):
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


# %% wrong: gradients_stay
# Updates each weight in time, but leaves the gradients lying there.

def lean_step(model, lr):
    optimizers = {}
    for p in model.parameters():
        if p.requires_grad:
            optimizers[p] = torch.optim.Adam([p], lr=lr)

    def update(p):
        optimizers[p].step()

    for p in optimizers:
        p.register_post_accumulate_grad_hook(update)

    def step(loss):
        model.zero_grad()
        loss.backward()

    return step


# %% wrong: zeros_for_none
# Fills the gradients with zeros, which take as much memory as the gradients did.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p], lr=lr) for p in model.parameters() if p.requires_grad}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad(set_to_none=False)

    for p in optimizers:
        p.register_post_accumulate_grad_hook(update)
    return lambda loss: loss.backward()


# %% wrong: sgd
# Updates without Adam's two numbers, which is another training.

def lean_step(model, lr):
    def update(p):
        with torch.no_grad():
            p -= lr * p.grad
        p.grad = None

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(update)
    return lambda loss: loss.backward()


# %% wrong: fresh_optimizers
# Makes a new Adam for each update, which has forgotten the steps before.

def lean_step(model, lr):
    def update(p):
        optimizer = torch.optim.Adam([p], lr=lr)
        optimizer.step()
        optimizer.zero_grad()

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(update)

    def step(loss):
        loss.backward()

    return step


# %% wrong: learning_rate_forgotten
# Leaves the learning rate at PyTorch's own.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p]) for p in model.parameters() if p.requires_grad}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in optimizers:
        p.register_post_accumulate_grad_hook(update)
    return lambda loss: loss.backward()


# %% wrong: frozen_are_not_expected
# Registers its function on every parameter, also where PyTorch refuses it.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p], lr=lr) for p in model.parameters()}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in model.parameters():
        p.register_post_accumulate_grad_hook(update)

    def step(loss):
        loss.backward()

    return step


# %% wrong: hooks_in_every_step
# Registers its functions again in each step, so that they update once more each time.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p], lr=lr) for p in model.parameters() if p.requires_grad}

    def update(p):
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        optimizers[p].step()
        optimizers[p].zero_grad()

    def step(loss):
        for p in optimizers:
            p.register_post_accumulate_grad_hook(update)
        loss.backward()

    return step


# %% wrong: steps_at_once
# Goes backward and updates when it is made, and returns nothing to call.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p], lr=lr) for p in model.parameters() if p.requires_grad}

    def update(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in optimizers:
        p.register_post_accumulate_grad_hook(update)


# %% wrong: hook_before_the_gradient
# Hooks with register_hook, which runs before the gradient is in .grad: the gradient that it frees is set again right after.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p], lr=lr) for p in model.parameters() if p.requires_grad}

    def hook_of(p):
        def hook(gradient):
            p.grad = gradient
            optimizers[p].step()
            p.grad = None

        return hook

    for p in optimizers:
        p.register_hook(hook_of(p))

    def step(loss):
        for p in optimizers:
            p.grad = None
        loss.backward()

    return step


# %% wrong: frozen_need_a_gradient
# Turns requires_grad on where PyTorch refuses the hook, and so trains what was frozen.

def lean_step(model, lr):
    def update(p):
        optimizers[p].step()
        p.grad = None

    optimizers = {}
    for p in model.parameters():
        p.requires_grad_(True)
        optimizers[p] = torch.optim.Adam([p], lr=lr)
        p.register_post_accumulate_grad_hook(update)
    return lambda loss: loss.backward()



# %% wrong: no_bias_correction
# Writes Adam by hand and leaves out the correction of its two means.

def lean_step(model, lr):
    kept = {}

    def update(p):
        m, v, step = kept.get(p, (torch.zeros_like(p), torch.zeros_like(p), 0))
        step += 1
        m = 0.9 * m + 0.1 * p.grad
        v = 0.999 * v + 0.001 * p.grad**2
        with torch.no_grad():
            p -= lr * m / (v.sqrt() + 1e-8)
        kept[p] = (m, v, step)
        p.grad = None

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(update)

    def step(loss):
        loss.backward()

    return step


# %% wrong: one_count_for_all
# Counts the steps of all parameters together.

def lean_step(model, lr):
    kept = {}
    count = 0

    def update(p):
        nonlocal count
        m, v, step = kept.get(p, (torch.zeros_like(p), torch.zeros_like(p), 0))
        count += 1
        step = count
        m = 0.9 * m + 0.1 * p.grad
        v = 0.999 * v + 0.001 * p.grad**2
        with torch.no_grad():
            p -= lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)
        kept[p] = (m, v, step)
        p.grad = None

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(update)

    def step(loss):
        loss.backward()

    return step


# %% wrong: gradients_of_all_steps
# Updates in time and never clears the gradients, so that they add up.

def lean_step(model, lr):
    optimizers = {p: torch.optim.Adam([p], lr=lr) for p in model.parameters() if p.requires_grad}
    for p in optimizers:
        p.register_post_accumulate_grad_hook(lambda p: optimizers[p].step())

    def step(loss):
        loss.backward()

    return step


# %% wrong: a_step_late
# Hooks with register_hook: the gradient that it finds in .grad is that of the step before.

def lean_step(model, lr):
    def watch(p):
        optimizer = torch.optim.Adam([p], lr=lr)

        def update(gradient):
            optimizer.step()
            optimizer.zero_grad()

        p.register_hook(update)

    for p in model.parameters():
        if p.requires_grad:
            watch(p)

    def step(loss):
        loss.backward()

    return step


# %% right: adam_by_hand
# Writes Adam's formula itself, in place.

def lean_step(model, lr):
    state = {}

    @torch.no_grad()
    def update(p):
        count, mean, square = state.setdefault(p, [0, torch.zeros_like(p), torch.zeros_like(p)])
        state[p][0] = count = count + 1
        mean.mul_(0.9).add_(p.grad, alpha=0.1)
        square.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
        p.grad = None
        bottom = (square / (1 - 0.999**count)).sqrt_().add_(1e-8)
        p.addcdiv_(mean, bottom, value=-lr / (1 - 0.9**count))

    for p in model.parameters():
        if p.requires_grad:
            p.register_post_accumulate_grad_hook(update)
    return lambda loss: loss.backward()


# %% right: a_layer_at_a_time
# Has one Adam a layer, which steps when the last gradient of its layer is there. Prints how many.

def lean_step(model, lr):
    count = 0
    for layer in model.modules():
        own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
        if not own:
            continue
        optimizer = torch.optim.Adam(own, lr=lr, foreach=False)
        count += 1

        def update(_, own=own, optimizer=optimizer):
            if all(p.grad is not None for p in own):
                optimizer.step()
                optimizer.zero_grad()

        for p in own:
            p.register_post_accumulate_grad_hook(update)
    print(count, "optimizers")

    def step(loss):
        loss.backward()

    return step


# %% right: a_class_with_call
# A class whose objects are called, with a fused Adam for each parameter.

class LeanStep:
    def __init__(self, model, lr):
        self.adams = {}
        for name, p in model.named_parameters():
            if not p.requires_grad:
                continue
            self.adams[id(p)] = torch.optim.Adam([p], lr=lr)
            p.register_post_accumulate_grad_hook(self.update)

    def update(self, p):
        adam = self.adams[id(p)]
        adam.step()
        p.grad = None

    def __call__(self, loss):
        loss.backward()
        return loss.detach()


def lean_step(model, lr):
    return LeanStep(model, lr)


# %% wrong: two_layers_at_once
# Waits until the gradients of two layers are there and updates them together, so their gradients and what Adam
# allocates are there at once.

def lean_step(model, lr):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer_of = {}

    def update(parameter):
        optimizer = optimizer_of[parameter]
        if all(other.grad is not None for other in optimizer.param_groups[0]["params"]):
            optimizer.step()
            optimizer.zero_grad()

    for first in range(0, len(trained), 4):  # a weight and a bias of each of two layers
        together = trained[first : first + 4]
        optimizer = torch.optim.Adam(together, lr=lr)
        for parameter in together:
            optimizer_of[parameter] = optimizer
            parameter.register_post_accumulate_grad_hook(update)

    def step(loss):
        loss.backward()

    return step
