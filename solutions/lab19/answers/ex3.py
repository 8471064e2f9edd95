# %% wrong: weights_alone
# Saves the weights, and takes AdamW's state for something that comes back by itself.

def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def states():
        names = "model_state_dict", "optim_state_dict"
        return dict(zip(names, get_state_dict(trainer.model, trainer.optimizer), strict=True))

    def save(folder):
        dcp.save({"model_state_dict": states()["model_state_dict"]}, checkpoint_id=folder)

    def load(folder):
        found = {"model_state_dict": states()["model_state_dict"]}
        dcp.load(found, checkpoint_id=folder)
        trainer.model.load_state_dict(found["model_state_dict"])

    return trainer.step, save, load


# %% wrong: loads_copies
# Loads into copies of the weights, and leaves them there.

def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def states():
        names = "model_state_dict", "optim_state_dict"
        return dict(zip(names, get_state_dict(trainer.model, trainer.optimizer), strict=True))

    def save(folder):
        dcp.save(states(), checkpoint_id=folder)

    def load(folder):
        found = {"model_state_dict": {name: p.clone() for name, p in states()["model_state_dict"].items()}}
        dcp.load(found, checkpoint_id=folder)

    return trainer.step, save, load


# %% wrong: two_functions
# Returns save and load alone.

def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def states():
        names = "model_state_dict", "optim_state_dict"
        return dict(zip(names, get_state_dict(trainer.model, trainer.optimizer), strict=True))

    def save(folder):
        dcp.save(states(), checkpoint_id=folder)

    def load(folder):
        found = states()
        dcp.load(found, checkpoint_id=folder)
        set_state_dict(trainer.model, trainer.optimizer, **found)

    return save, load


# %% wrong: kept_in_memory
# Keeps states in a variable of the program, which a new process would not have.

from torch.distributed.checkpoint.state_dict import StateDictOptions

KEPT = {}


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def save(folder):
        whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
        states = get_state_dict(trainer.model, trainer.optimizer, options=whole)
        if dist.get_rank() == 0:
            KEPT[folder] = states
        dist.barrier()

    def load(folder):
        model_state, optimizer_state = KEPT[folder]
        set_state_dict(
            trainer.model,
            trainer.optimizer,
            model_state_dict=model_state,
            optim_state_dict=optimizer_state,
            options=StateDictOptions(full_state_dict=True),
        )

    return trainer.step, save, load


# %% right: whole_tensors_in_one_file
# Gathers whole tensors, which rank 0 saves.

from pathlib import Path

from torch.distributed.checkpoint.state_dict import StateDictOptions

WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True)


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def save(folder):
        states = get_state_dict(trainer.model, trainer.optimizer, options=WHOLE)
        if dist.get_rank() == 0:
            torch.save(states, Path(folder) / "run.pt")
        dist.barrier()

    def load(folder):
        model_state, optimizer_state = torch.load(Path(folder) / "run.pt")
        set_state_dict(
            trainer.model,
            trainer.optimizer,
            model_state_dict=model_state,
            optim_state_dict=optimizer_state,
            options=StateDictOptions(full_state_dict=True),
        )

    return trainer.step, save, load


# %% right: by_hand
# Saves each parameter with its moments, whole, and shards them again.

from pathlib import Path

from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def save(folder):
        found = {}
        for name, p in trainer.model.named_parameters():
            state = trainer.optimizer.state[p]
            parts = {"weight": p.detach(), **{key: state[key] for key in ("exp_avg", "exp_avg_sq")}}
            found[name] = {key: whole(part).cpu() for key, part in parts.items()} | {"step": state["step"].cpu()}
        if dist.get_rank() == 0:
            torch.save(found, Path(folder) / "run.pt")
        dist.barrier()

    def load(folder):
        found = torch.load(Path(folder) / "run.pt")
        for name, p in trainer.model.named_parameters():
            def mine(found, p=p):
                found = found.to(p.device)
                return distribute_tensor(found, p.device_mesh, p.placements) if isinstance(p, DTensor) else found

            with torch.no_grad():
                p.copy_(mine(found[name]["weight"]))
            trainer.optimizer.state[p] = {key: mine(found[name][key]) for key in ("exp_avg", "exp_avg_sq")}
            trainer.optimizer.state[p]["step"] = found[name]["step"].to(p.device)

    return trainer.step, save, load


# %% wrong: counts_steps_from_0
# Restores both moments, and lets AdamW count its steps from 0.

from pathlib import Path

from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def save(folder):
        found = {}
        for name, p in trainer.model.named_parameters():
            state = trainer.optimizer.state[p]
            parts = {"weight": p.detach(), **{key: state[key] for key in ("exp_avg", "exp_avg_sq")}}
            found[name] = {key: whole(part).cpu() for key, part in parts.items()} | {"step": state["step"].cpu()}
        if dist.get_rank() == 0:
            torch.save(found, Path(folder) / "run.pt")
        dist.barrier()

    def load(folder):
        found = torch.load(Path(folder) / "run.pt")
        for name, p in trainer.model.named_parameters():
            def mine(found, p=p):
                found = found.to(p.device)
                return distribute_tensor(found, p.device_mesh, p.placements) if isinstance(p, DTensor) else found

            with torch.no_grad():
                p.copy_(mine(found[name]["weight"]))
            trainer.optimizer.state[p] = {key: mine(found[name][key]) for key in ("exp_avg", "exp_avg_sq")}
            trainer.optimizer.state[p]["step"] = torch.zeros((), device=p.device)

    return trainer.step, save, load


# %% wrong: second_moment_forgotten
# Restores the mean of gradients, and not that of their squares.

from pathlib import Path

from torch.distributed.tensor import DTensor, distribute_tensor


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def save(folder):
        found = {}
        for name, p in trainer.model.named_parameters():
            state = trainer.optimizer.state[p]
            parts = {"weight": p.detach(), **{key: state[key] for key in ("exp_avg", "exp_avg_sq")}}
            found[name] = {key: whole(part).cpu() for key, part in parts.items()} | {"step": state["step"].cpu()}
        if dist.get_rank() == 0:
            torch.save(found, Path(folder) / "run.pt")
        dist.barrier()

    def load(folder):
        found = torch.load(Path(folder) / "run.pt")
        for name, p in trainer.model.named_parameters():
            def mine(found, p=p):
                found = found.to(p.device)
                return distribute_tensor(found, p.device_mesh, p.placements) if isinstance(p, DTensor) else found

            with torch.no_grad():
                p.copy_(mine(found[name]["weight"]))
            trainer.optimizer.state[p] = {key: mine(found[name][key]) for key in ("exp_avg", "exp_avg_sq")}
            trainer.optimizer.state[p]["exp_avg_sq"].zero_()
            trainer.optimizer.state[p]["step"] = found[name]["step"].to(p.device)

    return trainer.step, save, load


# %% wrong: a_file_for_each_rank
# Saves each rank's shards, and loads the file with its own number.

from pathlib import Path


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def states():
        parts = {}
        for name, p in trainer.model.named_parameters():
            state = trainer.optimizer.state[p]
            parts[name] = [p.detach().to_local(), *(state[key].to_local() for key in ("exp_avg", "exp_avg_sq") if state)]
        return parts

    def save(folder):
        torch.save({name: [part.cpu() for part in parts] for name, parts in states().items()}, Path(folder) / f"{dist.get_rank()}.pt")
        dist.barrier()

    def load(folder):
        files = [dist.get_rank()]
        found = [torch.load(Path(folder) / f"{number}.pt") for number in files]
        for name, p in trainer.model.named_parameters():
            joined = [torch.cat(parts).to(p.device) for parts in zip(*(each[name] for each in found), strict=True)]
            with torch.no_grad():
                p.to_local().copy_(joined[0])
            like = [torch.distributed.tensor.DTensor.from_local(part, p.device_mesh, p.placements) for part in joined[1:]]
            trainer.optimizer.state[p] = dict(zip(("exp_avg", "exp_avg_sq"), like, strict=True)) | {"step": torch.full((), 2.0, device=p.device)}

    return trainer.step, save, load


# %% wrong: two_shards_for_one
# Joins the shards of two ranks, as four ranks become two.

from pathlib import Path


def make_resumable(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn)

    def states():
        parts = {}
        for name, p in trainer.model.named_parameters():
            state = trainer.optimizer.state[p]
            parts[name] = [p.detach().to_local(), *(state[key].to_local() for key in ("exp_avg", "exp_avg_sq") if state)]
        return parts

    def save(folder):
        torch.save({name: [part.cpu() for part in parts] for name, parts in states().items()}, Path(folder) / f"{dist.get_rank()}.pt")
        dist.barrier()

    def load(folder):
        files = [0, 1]
        found = [torch.load(Path(folder) / f"{number}.pt") for number in files]
        for name, p in trainer.model.named_parameters():
            joined = [torch.cat(parts).to(p.device) for parts in zip(*(each[name] for each in found), strict=True)]
            with torch.no_grad():
                p.to_local().copy_(joined[0])
            like = [torch.distributed.tensor.DTensor.from_local(part, p.device_mesh, p.placements) for part in joined[1:]]
            trainer.optimizer.state[p] = dict(zip(("exp_avg", "exp_avg_sq"), like, strict=True)) | {"step": torch.full((), 2.0, device=p.device)}

    return trainer.step, save, load
