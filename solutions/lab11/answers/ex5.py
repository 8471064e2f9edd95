# %% wrong: optimizer_state_not_saved
# Saves the weights, and lets Adam start with empty moments.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: no_random_state
# Does not save where the random numbers are, so dropout drops others.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: random_state_of_the_cpu_only
# Saves the CPU's generator. Dropout on a GPU asks the GPU's own.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: random_state_of_the_gpu_only
# Saves the GPU's generator. The order of the samples comes from the CPU's.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: order_drawn_again
# Draws a new order when it goes on in the middle of an epoch.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0 or order is None:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: epoch_begins_again
# Goes on with the next epoch, and leaves out the samples that were still to come.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses = []
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    while len(losses) < steps:
        for rows in torch.randperm(len(x)).split(size):
            optimizer.zero_grad()
            loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            state = dict(model=model.state_dict(), optimizer=optimizer.state_dict(), losses=losses,
                         cpu=torch.get_rng_state(), gpu=gpu.get_rng_state(device))
            torch.save(state, path + ".new")
            os.replace(path + ".new", path)
            if len(losses) == steps:
                break
    return losses


# %% wrong: saved_in_place
# Writes over the only checkpoint. Stopped while it writes, there is none.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, path)
    return losses


# %% wrong: counted_before
# Saves the number of the step before it is counted, and the weights after the update: one batch is used twice.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    step, losses, order = 0, [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        step, losses, order = saved["step"], saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    batches = -(-len(x) // size)
    for step in range(step, steps):
        if step % batches == 0:
            order = torch.randperm(len(x))
        rows = order.split(size)[step % batches]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        state = dict(step=step, model=model.state_dict(), optimizer=optimizer.state_dict(), losses=losses, order=order,
                     cpu=torch.get_rng_state(), gpu=gpu.get_rng_state(device))
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
    return losses


# %% wrong: saved_before_the_update
# Saves between the loss and the update: the batch counts as done, and is not in the weights.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
        optimizer.step()
    return losses


# %% wrong: saved_when_it_ends
# Saves in a finally block, which a process that is killed does not run.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    try:
        while len(losses) < steps:
            place = len(losses) % epoch
            if place == 0:
                order = torch.randperm(len(x))
            rows = order[place * size : (place + 1) * size]
            optimizer.zero_grad()
            loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    finally:
        state = dict(model=model.state_dict(), optimizer=optimizer.state_dict(), losses=losses, order=order,
                     cpu=torch.get_rng_state(), gpu=gpu.get_rng_state(device))
        torch.save(state, path + ".tmp")
        os.replace(path + ".tmp", path)
    return losses


# %% wrong: saved_each_epoch
# Saves at the end of each epoch, and does up to an epoch again.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if len(losses) % epoch and len(losses) < steps:
            continue
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: losses_since_the_stop
# Returns the losses since it went on, and not those before.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    before = len(losses)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses[before:]


# %% wrong: not_shuffled
# Goes through the samples in the same order in each epoch.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.arange(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: drawn_with_replacement
# Draws each batch by itself: some samples come twice in an epoch, and some never.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = torch.randint(len(x), (min(size, len(x) - place * size),))
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, f"{path}.new")
        os.replace(f"{path}.new", path)
    return losses


# %% wrong: kept_in_memory
# Keeps the state in a variable of the notebook, which is gone with the process.

import os

kept = {}


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if kept:
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        losses, order = list(kept["losses"]), kept["order"]
        torch.set_rng_state(kept["cpu"])
        gpu.set_rng_state(kept["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        kept.update(model={k: v.clone() for k, v in model.state_dict().items()}, optimizer=copy.deepcopy(optimizer.state_dict()),
                    losses=list(losses), order=order, cpu=torch.get_rng_state(), gpu=gpu.get_rng_state(device))
    return losses


import copy


# %% wrong: removed_before_renaming
# Writes a new file, removes the old one, and renames. Stopped in between, there is no checkpoint under its name.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, path + ".new")
        if os.path.exists(path):
            os.remove(path)
        os.rename(path + ".new", path)
    return losses


# %% wrong: written_in_another_folder
# Writes into a temporary folder, and moves the file when it is whole.

import os
import tempfile


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        elsewhere = os.path.join(tempfile.gettempdir(), f"checkpoint-{os.getpid()}")
        torch.save(saved, elsewhere)
        os.replace(elsewhere, path)
    return losses


# %% wrong: weights_in_a_file_of_their_own
# Saves the weights in one file and all else in another, and puts one after the other in its place.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    shuffling = torch.Generator()
    shuffling.seed()
    start, losses = shuffling.get_state(), []
    if os.path.exists(path):
        with open(path, "rb") as file:
            saved = torch.load(file, weights_only=False)
        model.load_state_dict(torch.load(path + ".weights"))
        optimizer.load_state_dict(saved["optimizer"])
        losses, start = saved["losses"], saved["shuffling"]
        gpu.set_rng_state(saved["gpu"], device)
    else:
        shuffling.manual_seed(torch.randint(2**31, ()).item())
        start = shuffling.get_state()
    done = len(losses)
    shuffling.set_state(start)
    step = 0
    while step < steps:
        for rows in torch.randperm(len(x), generator=shuffling).split(size):
            if done <= step < steps:
                optimizer.zero_grad()
                loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                with open(path + ".tmp", "wb") as file:
                    torch.save(
                        {
                            "optimizer": optimizer.state_dict(),
                            "losses": losses,
                            "shuffling": start,
                            "gpu": gpu.get_rng_state(device),
                        },
                        file,
                    )
                torch.save(model.state_dict(), path + ".weights.tmp")
                os.replace(path + ".weights.tmp", path + ".weights")
                os.replace(path + ".tmp", path)
            step += 1
    return losses


# %% right: seed_of_the_epoch
# Makes the order of each epoch from its number, so that only the GPU's random numbers are to be saved.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses = []
    if os.path.isfile(path):
        checkpoint = torch.load(path, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        gpu.set_rng_state(checkpoint["random"], device)
        losses = checkpoint["losses"]
    batches = math.ceil(len(x) / size)
    for step in range(len(losses), steps):
        epoch, batch = divmod(step, batches)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        rows = order.split(size)[batch]
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
        checkpoint = dict(
            model=model.state_dict(),
            optimizer=optimizer.state_dict(),
            random=gpu.get_rng_state(device),
            losses=losses,
        )
        torch.save(checkpoint, path + ".part")
        os.rename(path + ".part", path)
    return losses


import math


# %% right: saved_before_each_step
# Saves at the beginning of each step what the step needs, and once more at the end.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, left = [], []

    def save():
        torch.save(
            (model.state_dict(), optimizer.state_dict(), losses, left, torch.get_rng_state(), gpu.get_rng_state(device)),
            path + "~",
        )
        os.replace(path + "~", path)

    try:
        weights, moments, losses, left, cpu, random = torch.load(path)
    except FileNotFoundError:
        pass
    else:
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        torch.set_rng_state(cpu)
        gpu.set_rng_state(random, device)
    while len(losses) < steps:
        save()
        left = left or list(torch.randperm(len(x)).split(size))
        rows = left[0]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        left = left[1:]
        losses.append(loss.item())
    save()
    return losses


# %% right: put_aside_first
# Puts the old checkpoint aside before the new one takes its name, and resumes from the one that exists.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    there = [name for name in (path, path + ".old") if os.path.exists(name)]
    if there:
        saved = torch.load(there[0])
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        torch.save(saved, path + ".new")
        if os.path.exists(path):
            os.rename(path, path + ".old")
        os.rename(path + ".new", path)
    return losses


# %% right: two_files
# Writes with a file object in a new file of another name, and keeps its generator for the order in the checkpoint.

import os

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    shuffling = torch.Generator()
    shuffling.seed()
    start, losses = shuffling.get_state(), []
    if os.path.exists(path):
        with open(path, "rb") as file:
            saved = torch.load(file, weights_only=False)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, start = saved["losses"], saved["shuffling"]
        gpu.set_rng_state(saved["gpu"], device)
    else:
        shuffling.manual_seed(torch.randint(2**31, ()).item())
        start = shuffling.get_state()
    done = len(losses)
    shuffling.set_state(start)
    step = 0
    while step < steps:
        for rows in torch.randperm(len(x), generator=shuffling).split(size):
            if done <= step < steps:
                optimizer.zero_grad()
                loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                with open(path + ".tmp", "wb") as file:
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "losses": losses,
                            "shuffling": start,
                            "gpu": gpu.get_rng_state(device),
                        },
                        file,
                    )
                os.replace(path + ".tmp", path)
            step += 1
    return losses


# %% right: from_a_folder
# Writes in a folder next to the checkpoint, whose name begins with its name.

import os


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    def here():
        return next(model.parameters()).device

    def write(history, queue):
        folder = f"{path}.new"
        if not os.path.isdir(folder):
            os.mkdir(folder)
        inside = os.path.join(folder, "state")
        generators = torch.get_rng_state(), torch.get_device_module(here()).get_rng_state(here())
        torch.save([model.state_dict(), optimizer.state_dict(), history, queue, generators], inside)
        os.replace(inside, path)

    def one_step(rows):
        value = loss_fn(model(x[rows].to(here())), y[rows].to(here()))
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
        return value.item()

    history, queue = [], ()
    if os.path.exists(path):
        weights, moments, history, queue, (host, gpu) = torch.load(path)
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        torch.set_rng_state(host)
        torch.get_device_module(here()).set_rng_state(gpu, here())
    optimizer.zero_grad()
    for _ in range(steps - len(history)):
        first, *queue = queue or torch.randperm(len(x)).split(size)
        history.append(one_step(first))
        write(history, queue)
    return history


# %% right: with_paths
# Works with paths, resolved and with a suffix, and lets the path itself replace the checkpoint.

import os
from pathlib import Path


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    gpu = torch.get_device_module(device)
    losses, order = [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    epoch = -(-len(x) // size)
    while len(losses) < steps:
        place = len(losses) % epoch
        if place == 0:
            order = torch.randperm(len(x))
        rows = order[place * size : (place + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        saved |= {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}
        following = Path(path).resolve().with_suffix(".next")
        torch.save(saved, following)
        following.replace(path)
    return losses


# %% wrong: removed_at_the_end
# Removes the checkpoint when all steps are done, because it seems needed no more.

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device, losses, order = next(model.parameters()).device, [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"], device)
    batches = -(-len(x) // size)
    while len(losses) < steps:
        batch = len(losses) % batches
        if batch == 0:
            order = torch.randperm(len(x))
        rows = order.split(size)[batch]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        torch.save(saved | {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state(device)}, f"{path}.new")
        os.replace(f"{path}.new", path)  # all at once: a reader finds the old file or the new one
    if os.path.exists(path):
        os.remove(path)
    return losses


# %% wrong: generator_of_the_current_device
# Saves the random numbers of the current GPU, and not of the one that the model is on.

def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device, losses, order = next(model.parameters()).device, [], None
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        gpu.set_rng_state(saved["gpu"])
    batches = -(-len(x) // size)
    while len(losses) < steps:
        batch = len(losses) % batches
        if batch == 0:
            order = torch.randperm(len(x))
        rows = order.split(size)[batch]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        saved = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "order": order}
        torch.save(saved | {"cpu": torch.get_rng_state(), "gpu": gpu.get_rng_state()}, f"{path}.new")
        os.replace(f"{path}.new", path)  # all at once: a reader finds the old file or the new one
    return losses


# %% wrong: copies_over
# Writes a file beside the checkpoint and copies it over that, as if the copy were there all at once.

import shutil


def train_resumably(model, optimizer, loss_fn, x, y, size, steps, path):
    device = next(model.parameters()).device
    module = torch.get_device_module(device)
    losses, order = [], None
    batches = (len(x) + size - 1) // size
    if os.path.exists(path):
        saved = torch.load(path, map_location="cpu")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses, order = saved["losses"], saved["order"]
        torch.set_rng_state(saved["cpu"])
        module.set_rng_state(saved["gpu"], device)
    while len(losses) < steps:
        turn = len(losses) % batches
        if turn == 0:
            order = torch.randperm(len(x))
        rows = order[turn * size : (turn + 1) * size]
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows].to(device)), y[rows].to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "losses": losses,
            "order": order,
            "cpu": torch.get_rng_state(),
            "gpu": module.get_rng_state(device),
        }
        torch.save(state, path + ".new")
        shutil.copyfile(path + ".new", path)
    return losses
