"""Answers to exercise 4 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: as_it_was
# Starts the broken run again.

def train(model, optimizer, batches, held_out, folder, every):
    losses = []
    for step, (x, y) in enumerate(batches, 1):
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        losses.append(model(*held_out))
        if step % every == 0:
            torch.save(model.state_dict(), f"{folder}/checkpoint.pt")
    return losses


# %% wrong: graphs_kept_beside_the_numbers
# Returns numbers, and keeps the tensors too.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses, kept = 0, [], []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        kept.append(model(*held_out))
        losses.append(kept[-1].item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: sum_with_its_graph
# Keeps a running sum of the losses as a tensor, and each step's graph with it.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses, total = 0, [], 0
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        loss = model(*held_out)
        total = total + loss
        losses.append(loss.item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: detached_tensors
# Returns tensors without a graph. They are no floats.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out))
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: clone_keeps_the_graph
# Keeps clones of the losses. A clone has a graph.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses, tested = 0, [], []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        tested.append(model(*held_out).clone())
        losses.append(float(tested[-1]))
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: loss_of_the_batch
# Returns the losses of the batches, from before each step.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(loss.item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: starts_again_after_a_kill
# Saves, and does not look for a checkpoint when it starts.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in []:
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: optimizer_not_saved
# Saves the weights only. AdamW starts again with empty averages.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: losses_not_saved
# Does not save the losses, and returns those since the last start.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step = state["step"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: weights_not_restored
# Restores the step and the optimizer, and not the weights.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: batches_from_the_start
# Restores everything, and takes the first batches again.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[: len(batches) - step]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: step_off_by_one
# Saves the number of the step that is done, and does this step again.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step - 1, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: only_one_checkpoint
# Keeps one checkpoint. If it is damaged, there is none.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-1]:
                os.remove(path)
    return losses


# %% wrong: all_checkpoints
# Keeps all checkpoints until the disk is full.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
    return losses


# %% wrong: older_ones_deleted_first
# Deletes the old checkpoints before the new one is written.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            for path in checkpoints(folder):
                os.remove(path)
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
    return losses


# %% wrong: trusts_the_newest
# Goes on from the newest file, whatever is in it.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: trusts_what_can_be_loaded
# Trusts a file that torch.load can read. It does not check the numbers.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    try:
        return torch.load(io.BytesIO(content[32:]))
    except Exception:
        return None


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: trusts_the_size
# Compares the size of the file with the one that was saved.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(len(content).to_bytes(32, "big") + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if len(content) - 32 != int.from_bytes(content[:32], "big"):
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: damaged_means_from_the_start
# Starts from the beginning where the newest checkpoint is damaged.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in checkpoints(folder)[-1:]:
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: not_flushed_to_the_disk
# Renames without os.fsync.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: flushed_once_at_the_end
# Calls os.fsync for the last checkpoint only.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    with open(checkpoints(folder)[-1], "rb") as file:
        os.fsync(file.fileno())
    return losses


# %% wrong: oldest_first
# Sorts by text, so that step 12 comes before step 9.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: always_another_one
# Takes the one before a damaged checkpoint, as if there always were one.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    paths = checkpoints(folder)
    if paths:
        state = load_whole(paths[-1]) or load_whole(paths[-2])
        step, losses = state["step"], state["losses"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: raises_at_damage
# Stops with an error at a damaged checkpoint.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        raise RuntimeError("the checkpoint is damaged")
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: last_step_only
# Saves at the end of the run.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step == len(batches):
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: written_over_the_last_one
# One file, written where the last one was.

def train(model, optimizer, batches, held_out, folder, every):
    path, losses = os.path.join(folder, "checkpoint.pt"), []
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    for x, y in batches[len(losses) :]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if len(losses) % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
            with open(path, "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
    return losses


# %% wrong: replaced_and_not_checked
# Writes beside and renames, as lab 11 does, and keeps one file that it trusts.

def train(model, optimizer, batches, held_out, folder, every):
    path, losses = os.path.join(folder, "checkpoint.pt"), []
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    for x, y in batches[len(losses) :]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if len(losses) % every == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}
            with open(path + ".new", "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(path + ".new", path)
    return losses


# %% wrong: synced_before_the_flush
# Calls os.fsync while bytes are still in Python's buffer.

import hashlib
import io
import re


def train(model, optimizer, batches, held_out, folder, every):
    def checkpoints():
        found = []
        for name in os.listdir(folder):
            match = re.fullmatch(r"step_(\d+)\.pt", name)
            if match:
                found.append((int(match[1]), os.path.join(folder, name)))
        return sorted(found)

    def read(path):
        with open(path, "rb") as file:
            digest, data = file.read(32), file.read()
        if hashlib.sha256(data).digest() != digest:
            return None
        return torch.load(io.BytesIO(data))

    def save(step):
        buffer = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step, "rng": torch.get_rng_state()}, buffer)
        data = buffer.getvalue()
        path = os.path.join(folder, f"step_{step}.pt")
        with open(path + ".tmp", "wb") as file:
            file.write(hashlib.sha256(data).digest())
            for at in range(0, len(data), 4000):
                file.write(data[at : at + 4000])
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        for _, old in checkpoints()[:-2]:
            os.remove(old)

    for name in os.listdir(folder):
        if name.endswith(".tmp"):
            os.remove(os.path.join(folder, name))
    done, losses = 0, []
    for step, path in reversed(checkpoints()):
        state = read(path)
        if state is None:
            os.remove(path)
            continue
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        done, losses = step, state["losses"]
        break
    for _, old in checkpoints()[:-2]:
        os.remove(old)
    for step, (x, y) in enumerate(batches, 1):
        if step <= done:
            continue
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            save(step)
    return losses


# %% wrong: synced_after_the_rename
# Renames first, and calls os.fsync afterwards.

import hashlib
import io
import re


def train(model, optimizer, batches, held_out, folder, every):
    def checkpoints():
        found = []
        for name in os.listdir(folder):
            match = re.fullmatch(r"step_(\d+)\.pt", name)
            if match:
                found.append((int(match[1]), os.path.join(folder, name)))
        return sorted(found)

    def read(path):
        with open(path, "rb") as file:
            digest, data = file.read(32), file.read()
        if hashlib.sha256(data).digest() != digest:
            return None
        return torch.load(io.BytesIO(data))

    def save(step):
        buffer = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step, "rng": torch.get_rng_state()}, buffer)
        data = buffer.getvalue()
        path = os.path.join(folder, f"step_{step}.pt")
        with open(path + ".tmp", "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
            file.flush()
        os.replace(path + ".tmp", path)
        with open(path, "rb") as file:
            os.fsync(file.fileno())
        for _, old in checkpoints()[:-2]:
            os.remove(old)

    for name in os.listdir(folder):
        if name.endswith(".tmp"):
            os.remove(os.path.join(folder, name))
    done, losses = 0, []
    for step, path in reversed(checkpoints()):
        state = read(path)
        if state is None:
            os.remove(path)
            continue
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        done, losses = step, state["losses"]
        break
    for _, old in checkpoints()[:-2]:
        os.remove(old)
    for step, (x, y) in enumerate(batches, 1):
        if step <= done:
            continue
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            save(step)
    return losses


# %% wrong: checksum_of_the_weights_only
# Does not notice damage to the optimizer's state.

import hashlib
import pickle
import zlib


def _digest(thing):
    if isinstance(thing, torch.Tensor):
        thing = thing.detach().cpu().contiguous()
        return zlib.crc32(thing.numpy().tobytes() + str((thing.dtype, tuple(thing.shape))).encode())
    if isinstance(thing, dict):
        return zlib.crc32(repr([(key, _digest(value)) for key, value in thing.items()]).encode())
    if isinstance(thing, (list, tuple)):
        return zlib.crc32(repr([_digest(value) for value in thing]).encode())
    return zlib.crc32(repr(thing).encode())


def train(model, optimizer, batches, held_out, folder, every):
    folder = Path(folder)
    losses, start = [], 0
    for old in folder.glob("*.part"):
        old.unlink()
    whole = sorted(folder.glob("checkpoint-*.pt"), reverse=True)
    for path in whole:
        try:
            saved = torch.load(path, weights_only=True)
            good = _digest(saved["state"]["model"]) == saved["digest"]
        except Exception:
            good = False
        if good:
            state = saved["state"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            losses, start = list(state["losses"]), state["step"]
            torch.set_rng_state(state["rng"])
            break
        path.unlink()

    for step, (x, y) in enumerate(batches, 1):
        if step <= start:
            continue
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(float(model(*held_out)))
        if step % every == 0:
            state = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "losses": losses,
                "step": step,
                "rng": torch.get_rng_state(),
            }
            path = folder / f"checkpoint-{step:010d}.pt"
            part = path.with_suffix(".part")
            with part.open("wb") as file:
                torch.save({"state": state, "digest": _digest(state["model"])}, file)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
            for old in sorted(folder.glob("checkpoint-*.pt"))[:-2]:
                old.unlink()
    return losses


# %% wrong: numbered_from_the_restart
# Numbers files by the steps since the restart, so that an old one seems the newest.

import hashlib
import io
import re


def train(model, optimizer, batches, held_out, folder, every):
    def checkpoints():
        found = []
        for name in os.listdir(folder):
            match = re.fullmatch(r"step_(\d+)\.pt", name)
            if match:
                found.append((int(match[1]), os.path.join(folder, name)))
        return sorted(found)

    def read(path):
        with open(path, "rb") as file:
            digest, data = file.read(32), file.read()
        if hashlib.sha256(data).digest() != digest:
            return None
        return torch.load(io.BytesIO(data))

    def save(step):
        buffer = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step, "rng": torch.get_rng_state()}, buffer)
        data = buffer.getvalue()
        path = os.path.join(folder, f"step_{step - done}.pt")
        with open(path + ".tmp", "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        for _, old in checkpoints()[:-2]:
            os.remove(old)

    for name in os.listdir(folder):
        if name.endswith(".tmp"):
            os.remove(os.path.join(folder, name))
    done, losses = 0, []
    for step, path in reversed(checkpoints()):
        state = read(path)
        if state is None:
            os.remove(path)
            continue
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        done, losses = state["step"], state["losses"]
        break
    for _, old in checkpoints()[:-2]:
        os.remove(old)
    for step, (x, y) in enumerate(batches, 1):
        if step <= done:
            continue
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            save(step)
    return losses


# %% wrong: deletes_exactly_one
# Deletes the file of two saves ago, so that what killed processes left behind piles up.

import hashlib
import io
import re


def train(model, optimizer, batches, held_out, folder, every):
    def checkpoints():
        found = []
        for name in os.listdir(folder):
            match = re.fullmatch(r"step_(\d+)\.pt", name)
            if match:
                found.append((int(match[1]), os.path.join(folder, name)))
        return sorted(found)

    def read(path):
        with open(path, "rb") as file:
            digest, data = file.read(32), file.read()
        if hashlib.sha256(data).digest() != digest:
            return None
        return torch.load(io.BytesIO(data))

    def save(step):
        buffer = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step, "rng": torch.get_rng_state()}, buffer)
        data = buffer.getvalue()
        path = os.path.join(folder, f"step_{step}.pt")
        with open(path + ".tmp", "wb") as file:
            file.write(hashlib.sha256(data).digest() + data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".tmp", path)
        old = os.path.join(folder, f"step_{step - 2 * every}.pt")
        if os.path.exists(old):
            os.remove(old)

    for name in os.listdir(folder):
        if name.endswith(".tmp"):
            os.remove(os.path.join(folder, name))
    done, losses = 0, []
    for step, path in reversed(checkpoints()):
        state = read(path)
        if state is None:
            os.remove(path)
            continue
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])
        done, losses = step, state["losses"]
        break
    for step, (x, y) in enumerate(batches, 1):
        if step <= done:
            continue
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            save(step)
    return losses


# %% wrong: older_ones_deleted_before_the_rename
# Deletes the old checkpoint when the new one is written, and has not yet its name.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    for old in checkpoints(os.path.dirname(path))[:-1]:
        os.remove(old)
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% wrong: the_last_becomes_the_one_before
# Renames the newest checkpoint to be the one before, also where it is damaged and the one before is whole.

import hashlib
import io


def load_whole(path):
    content = Path(path).read_bytes() if os.path.exists(path) else b""
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def train(model, optimizer, batches, held_out, folder, every):
    latest, previous = os.path.join(folder, "latest.pt"), os.path.join(folder, "previous.pt")
    losses = []
    state = load_whole(latest) or load_whole(previous)
    if state:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        losses = state["losses"]
    for x, y in batches[len(losses) :]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if len(losses) % every == 0:
            content = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, content)
            with open(latest + ".new", "wb") as file:
                file.write(hashlib.sha256(content.getvalue()).digest() + content.getvalue())
                file.flush()
                os.fsync(file.fileno())
            if os.path.exists(latest):
                os.replace(latest, previous)
            os.replace(latest + ".new", latest)
    return losses


# %% wrong: synced_without_a_flush
# Writes all bytes at once and calls os.fsync without file.flush(). Large files are whole then, and small ones are
# still in Python's buffer.

import hashlib
import io


def train(model, optimizer, batches, held_out, folder, every):
    folder = Path(folder)
    losses = []

    def checkpoints():
        return sorted(folder.glob("step-*.ckpt"))

    for path in reversed(checkpoints()):
        data = path.read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            continue
        saved = torch.load(io.BytesIO(data[32:]))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
        break

    for step in range(len(losses) + 1, len(batches) + 1):
        x, y = batches[step - 1]
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            buffer = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, buffer)
            data = buffer.getvalue()
            temporary = folder / "writing.tmp"
            with open(temporary, "wb") as file:
                file.write(hashlib.sha256(data).digest())
                file.write(data)
                os.fsync(file.fileno())
            os.replace(temporary, folder / f"step-{step:08}.ckpt")
            for old in checkpoints()[:-2]:
                old.unlink()
    return losses


# %% wrong: written_in_another_folder
# Writes the temporary file in the current folder, which can be on another disk.

import hashlib
import io


def train(model, optimizer, batches, held_out, folder, every):
    folder = Path(folder)
    losses = []

    def checkpoints():
        return sorted(folder.glob("step-*.ckpt"))

    for path in reversed(checkpoints()):
        data = path.read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            continue
        saved = torch.load(io.BytesIO(data[32:]))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
        break

    for step in range(len(losses) + 1, len(batches) + 1):
        x, y = batches[step - 1]
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            buffer = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, buffer)
            data = buffer.getvalue()
            temporary = Path("writing.tmp")
            with open(temporary, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / f"step-{step:08}.ckpt")
            for old in checkpoints()[:-2]:
                old.unlink()
    return losses


# %% wrong: nothing_left_to_do
# Returns no losses where all steps are done. A run can be killed in its last save.

import hashlib
import io


def train(model, optimizer, batches, held_out, folder, every):
    folder = Path(folder)
    losses = []

    def checkpoints():
        return sorted(folder.glob("step-*.ckpt"))

    for path in reversed(checkpoints()):
        data = path.read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            continue
        saved = torch.load(io.BytesIO(data[32:]))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
        break

    if len(losses) >= len(batches):
        return []
    for step in range(len(losses) + 1, len(batches) + 1):
        x, y = batches[step - 1]
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            buffer = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, buffer)
            data = buffer.getvalue()
            temporary = folder / "writing.tmp"
            with open(temporary, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / f"step-{step:08}.ckpt")
            for old in checkpoints()[:-2]:
                old.unlink()
    return losses


# %% wrong: no_checksum_is_trusted
# Writes the checksum into a second file, and trusts a checkpoint that has none because the run was killed in between.

import hashlib
import json


def write(path, data):
    with open(str(path) + ".tmp", "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(str(path) + ".tmp", path)


def train(model, optimizer, batches, held_out, folder, every):
    import io
    folder = Path(folder)
    losses, done = [], 0
    for path in sorted(folder.glob("*.pt"), reverse=True):
        side = path.with_suffix(".sha")
        if not side.exists() or hashlib.sha256(path.read_bytes()).hexdigest() == side.read_text():
            state = torch.load(path)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            losses, done = state["losses"], state["step"]
            break
    for step in range(done + 1, len(batches) + 1):
        optimizer.zero_grad()
        model(*batches[step - 1]).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            out = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step}, out)
            path = folder / f"{step:08}.pt"
            write(path, out.getvalue())
            write(path.with_suffix(".sha"), hashlib.sha256(out.getvalue()).hexdigest().encode())
            for old in sorted(folder.glob("*.pt"))[:-2]:
                old.unlink()
                old.with_suffix(".sha").unlink(missing_ok=True)
    return losses


# %% wrong: damaged_one_is_kept
# Numbers files on, so that a damaged one counts as one of the two, and the whole one is deleted.

import hashlib
import io


def train(model, optimizer, batches, held_out, folder, every):
    folder = Path(folder)
    losses = []

    def checkpoints():
        return sorted(folder.glob("step-*.ckpt"))

    count = max([int(p.stem.split('-')[1]) for p in checkpoints()], default=0)
    for path in reversed(checkpoints()):
        data = path.read_bytes()
        if hashlib.sha256(data[32:]).digest() != data[:32]:
            continue
        saved = torch.load(io.BytesIO(data[32:]))
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        losses = saved["losses"]
        break

    for step in range(len(losses) + 1, len(batches) + 1):
        x, y = batches[step - 1]
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            buffer = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, buffer)
            data = buffer.getvalue()
            temporary = folder / "writing.tmp"
            with open(temporary, "wb") as file:
                file.write(hashlib.sha256(data).digest() + data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, folder / f"step-{count + 1:08}.ckpt")
            count += 1
            for old in checkpoints()[:-2]:
                old.unlink()
    return losses


# %% wrong: temporary_file_is_kept
# Counts a temporary file that a killed process has left behind as one of the two, and deletes a whole one.

import hashlib
import io
import tempfile


def train(model, optimizer, batches, held_out, folder, every):
    def checkpoints():
        return sorted(Path(folder).glob("step*"), key=lambda p: (p.name[:12], p.suffix == ".pt"))

    def read(path):
        try:
            saved = torch.load(path)
            data = saved["data"].numpy().tobytes()
            return torch.load(io.BytesIO(data)) if hashlib.sha256(data).digest() == saved["digest"] else None
        except Exception:
            return None

    losses = []
    for path in reversed(checkpoints()):
        state = read(path)
        if state:
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            losses = state["losses"]
            break
    for step in range(len(losses) + 1, len(batches) + 1):
        x, y = batches[step - 1]
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        losses.append(float(model(*held_out)))
        if step % every == 0:
            fd, temporary = tempfile.mkstemp(dir=folder, prefix=f"step{step:08}.")
            out = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, out)
            data = bytearray(out.getvalue())
            with open(fd, "wb") as f:
                torch.save({"data": torch.frombuffer(data, dtype=torch.uint8), "digest": hashlib.sha256(data).digest()}, f)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, f"{folder}/step{step:08}.pt")
            for old in checkpoints()[:-2]:
                old.unlink()
    return losses


# %% right: numbered_files
# A checksum before the content, numbered files, the newest whole one first.

import hashlib
import io


def save_whole(state, path):
    content = io.BytesIO()
    torch.save(state, content)
    content = content.getvalue()
    with open(path + ".part", "wb") as file:
        file.write(hashlib.sha256(content).digest() + content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".part", path)


def load_whole(path):
    content = Path(path).read_bytes()
    if hashlib.sha256(content[32:]).digest() != content[:32]:
        return None
    return torch.load(io.BytesIO(content[32:]))


def checkpoints(folder):
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".pt"))


def train(model, optimizer, batches, held_out, folder, every):
    step, losses = 0, []
    for path in reversed(checkpoints(folder)):
        state = load_whole(path)
        if state is not None:
            step, losses = state["step"], state["losses"]
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            break
    for x, y in batches[step:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        step += 1
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            state = {"step": step, "losses": losses}
            state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save_whole(state, os.path.join(folder, f"{step:08}.pt"))
            for path in checkpoints(folder)[:-2]:
                os.remove(path)
    return losses


# %% right: two_slots_with_zip_checksums
# Two files in turns, checked by the checksums that torch.save's zip file has.

import zipfile


def read(path):
    try:
        with zipfile.ZipFile(path) as file:
            if file.testzip() is None:
                return torch.load(path, weights_only=True)
    except (OSError, zipfile.BadZipFile, RuntimeError):
        pass
    return {"step": 0}


def train(model, optimizer, batches, held_out, folder, every):
    slots = [Path(folder) / "a.pt", Path(folder) / "b.pt"]
    states = [read(slot) for slot in slots]
    newest = max(states, key=lambda state: state["step"])
    oldest = states.index(min(states, key=lambda state: state["step"]))
    results = []
    if newest["step"]:
        model.load_state_dict(newest["model"])
        optimizer.load_state_dict(newest["optimizer"])
        results = newest["results"]
    del states
    for step in range(newest["step"] + 1, len(batches) + 1):
        optimizer.zero_grad(set_to_none=True)
        x, y = batches[step - 1]
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        with torch.inference_mode():
            results.append(float(model(*held_out)))
        if step % every == 0:
            new = Path(folder) / "new"
            with new.open("wb") as file:
                torch.save(
                    {"step": step, "results": results, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
                    file,
                )
                file.flush()
                os.fsync(file)
            new.rename(slots[oldest])
            oldest = 1 - oldest
    return results


# %% right: checksum_in_a_second_file
# A file and a second one with its CRC, which is written last: without it, the first does not count.

import zlib


class Checkpoints:
    def __init__(self, folder):
        self.folder = Path(folder)

    def steps(self):
        return sorted(int(path.stem) for path in self.folder.glob("*.crc"))

    def _sync(self, path, content):
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def save(self, step, state):
        path = self.folder / f"{step}.pt"
        torch.save(state, path)
        content = path.read_bytes()
        self._sync(path, content)
        self._sync(self.folder / f"{step}.crc", str(zlib.crc32(content)).encode())
        for old in self.steps()[:-2]:
            (self.folder / f"{old}.pt").unlink(missing_ok=True)
            (self.folder / f"{old}.crc").unlink()

    def load(self):
        for step in reversed(self.steps()):
            path = self.folder / f"{step}.pt"
            crc = (self.folder / f"{step}.crc").read_text()
            if path.exists() and crc == str(zlib.crc32(path.read_bytes())):
                return step, torch.load(path)
        return 0, None


def train(model, optimizer, batches, held_out, folder, every):
    checkpoints = Checkpoints(folder)
    done, state = checkpoints.load()
    losses = []
    if state:
        model.load_state_dict(state[0])
        optimizer.load_state_dict(state[1])
        losses = state[2]
    for step, (x, y) in list(enumerate(batches, 1))[done:]:
        optimizer.zero_grad()
        model(x, y).backward()
        optimizer.step()
        losses += [model(*held_out).item()]
        if step % every == 0:
            checkpoints.save(step, [model.state_dict(), optimizer.state_dict(), losses])
    return losses


# %% right: temporary_file_of_the_library
# tempfile beside the checkpoints, and a checksum of each tensor in the state itself.

import hashlib
import io
import tempfile


def digest(value):
    text = hashlib.md5()

    def add(each):
        if isinstance(each, torch.Tensor):
            text.update(each.contiguous().numpy().tobytes())
        elif isinstance(each, dict):
            for key in each:
                text.update(str(key).encode())
                add(each[key])
        elif isinstance(each, (list, tuple)):
            for one in each:
                add(one)
        elif isinstance(each, (int, float, str)):
            text.update(repr(each).encode())

    add(value)
    return text.hexdigest()


def newest_whole(folder):
    for name in sorted(os.listdir(folder), reverse=True):
        if not name.startswith("step"):
            continue
        try:
            state = torch.load(os.path.join(folder, name))
        except Exception:
            continue
        if state.pop("digest", "") == digest(state):
            return state
    return None


def train(model, optimizer, batches, held_out, folder, every):
    state = newest_whole(folder)
    losses = []
    if state is not None:
        losses = state["losses"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    start = len(losses)
    for number in range(start, len(batches)):
        loss = model(*batches[number])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        del loss
        with torch.no_grad():
            losses.append(model(*held_out).tolist())
        if (number + 1) % every:
            continue
        state = {"losses": losses, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state["digest"] = digest(state)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="unfinished", delete=False) as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(file.name, os.path.join(folder, f"step{number + 1:06}"))
        for name in sorted(name for name in os.listdir(folder) if name.startswith("step"))[:-2]:
            os.unlink(os.path.join(folder, name))
        for name in os.listdir(folder):
            if name.startswith("unfinished"):
                os.unlink(os.path.join(folder, name))
    return losses


# %% right: folder_synced_too
# Also syncs the folder after the rename, so that the new name survives, too.

import zlib
from io import BytesIO


class Safe:
    """The two newest checkpoints in a folder: four bytes of a checksum, then what torch.save writes."""

    def __init__(self, where):
        self.where = Path(where)

    def newest_first(self):
        return sorted(self.where.glob("step*.ckpt"), key=lambda p: int(p.stem[4:]), reverse=True)

    def put(self, number, **everything):
        memory = BytesIO()
        torch.save(everything, memory)
        packed = memory.getvalue()
        half = self.where / "half"
        with half.open("wb") as out:
            out.write(zlib.crc32(packed).to_bytes(4, "big"))
            out.write(packed)
            out.flush()
            os.fsync(out)
        half.rename(self.where / f"step{number}.ckpt")
        handle = os.open(self.where, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
        for old in self.newest_first()[2:]:
            old.unlink()

    def get(self):
        for candidate in self.newest_first():
            raw = candidate.read_bytes()
            if len(raw) > 4 and int.from_bytes(raw[:4], "big") == zlib.crc32(raw[4:]):
                return torch.load(BytesIO(raw[4:]))


def train(model, optimizer, batches, held_out, folder, every):
    safe = Safe(folder)
    found = safe.get() or {"done": 0, "seen": []}
    seen = found["seen"]
    if found["done"]:
        model.load_state_dict(found["weights"])
        optimizer.load_state_dict(found["moments"])
    for done, (x, y) in enumerate(batches[found["done"] :], found["done"] + 1):
        model.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            seen.append(float(model(*held_out)))
        if done % every == 0:
            safe.put(done, done=done, seen=seen, weights=model.state_dict(), moments=optimizer.state_dict())
    return seen


# %% right: checksum_before_the_file
# The checksum in a second file that is written first: two renames for each save.

import hashlib
import json


def write(path, data):
    with open(str(path) + ".tmp", "wb") as f:
        f.write(data)
        f.flush()
        os.fsync(f.fileno())
    os.replace(str(path) + ".tmp", path)


def train(model, optimizer, batches, held_out, folder, every):
    import io
    folder = Path(folder)
    losses, done = [], 0
    for path in sorted(folder.glob("*.pt"), reverse=True):
        side = path.with_suffix(".sha")
        if side.exists() and hashlib.sha256(path.read_bytes()).hexdigest() == side.read_text():
            state = torch.load(path)
            model.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            losses, done = state["losses"], state["step"]
            break
    for step in range(done + 1, len(batches) + 1):
        optimizer.zero_grad()
        model(*batches[step - 1]).backward()
        optimizer.step()
        with torch.no_grad():
            losses.append(model(*held_out).item())
        if step % every == 0:
            out = io.BytesIO()
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses, "step": step}, out)
            path = folder / f"{step:08}.pt"
            write(path.with_suffix(".sha"), hashlib.sha256(out.getvalue()).hexdigest().encode())
            write(path, out.getvalue())
            for old in sorted(folder.glob("*.pt"))[:-2]:
                old.unlink()
                old.with_suffix(".sha").unlink(missing_ok=True)
    return losses
