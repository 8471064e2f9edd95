# %% wrong: adams_state_is_lost
# Loads the weights alone: Adam begins at zero.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
    for step in range(done, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save([step + 1, model.state_dict(), optimizer.state_dict()], f"{file}.new")
            os.replace(f"{file}.new", file)


# %% wrong: weights_are_lost
# Knows the step and begins with its own weights.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        optimizer.load_state_dict(state)
    for step in range(done, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save([step + 1, model.state_dict(), optimizer.state_dict()], f"{file}.new")
            os.replace(f"{file}.new", file)


# %% wrong: one_batch_twice
# Saves the step that is done for the one that comes next.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(done, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save([step, model.state_dict(), optimizer.state_dict()], f"{file}.new")
            os.replace(f"{file}.new", file)


# %% wrong: all_batches_again
# Loads everything but where it was.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save([step + 1, model.state_dict(), optimizer.state_dict()], f"{file}.new")
            os.replace(f"{file}.new", file)


# %% wrong: every_rank_writes
# All ranks write to one file.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(done, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        torch.save([step + 1, model.state_dict(), optimizer.state_dict()], f"{file}.new")
        if dist.get_rank() == 0:
            os.replace(f"{file}.new", file)


# %% wrong: over_the_only_file
# A crash in the middle of this save leaves nothing.


def train(file, model, optimizer, loss_fn, batches):
    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(done, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save([step + 1, model.state_dict(), optimizer.state_dict()], file)


# %% wrong: saves_at_the_end
# A crash before the end loses all.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(done, len(batches)):
        x, y = batches[step]
        optimizer.zero_grad()
        loss_fn(model(x), y).backward()
        optimizer.step()
    if dist.get_rank() == 0:
        torch.save([step + 1, model.state_dict(), optimizer.state_dict()], f"{file}.new")
        os.replace(f"{file}.new", file)


# %% wrong: gradients_add_up
# Never clears gradients.


def train(file, model, optimizer, loss_fn, batches):
    import os

    import torch.distributed as dist

    done = 0
    if file.exists():
        done, weights, state = torch.load(file, map_location="cpu")
        model.load_state_dict(weights)
        optimizer.load_state_dict(state)
    for step in range(done, len(batches)):
        x, y = batches[step]
        loss_fn(model(x), y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            torch.save([step + 1, model.state_dict(), optimizer.state_dict()], f"{file}.new")
            os.replace(f"{file}.new", file)


# %% right: a_dictionary_and_a_path
# Other names, and pathlib's rename.


def train(file, model, optimizer, loss_fn, batches):
    import torch.distributed as dist

    parts = {"model": model, "optimizer": optimizer}
    first = 0
    if file.is_file():
        saved = torch.load(file, map_location="cpu", weights_only=True)
        first = saved.pop("next")
        for name, state in saved.items():
            parts[name].load_state_dict(state)
    for number, (x, y) in enumerate(batches[first:], first + 1):
        loss = loss_fn(model(x), y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if not dist.get_rank():
            new = file.with_suffix(".tmp")
            torch.save({"next": number} | {name: part.state_dict() for name, part in parts.items()}, new)
            new.replace(file)
