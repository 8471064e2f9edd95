# %% wrong: recomputes_nothing
# Takes HSDP because it is fast, and leaves no room for activations.

from functools import partial


class Fast:
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0, mesh=None, reshard=True):
        ranks = dist.get_world_size()
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        sizes, names = (2, ranks // 2), ("replicate", "shard")
        mesh = init_device_mesh("simgpu", sizes, mesh_dim_names=names)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Fast(model, gpu, weights, loss_fn, recomputed=0)
    return trainer.step, trainer.gradients


# %% wrong: all_recomputed_over_all_ranks
# Shards over all ranks and recomputes all blocks, because the model is large.

from functools import partial


class Fast:
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0, mesh=None, reshard=True):
        ranks = dist.get_world_size()
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        sizes, names = (ranks,), ("shard",)
        mesh = init_device_mesh("simgpu", sizes, mesh_dim_names=names)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Fast(model, gpu, weights, loss_fn, recomputed=8)
    return trainer.step, trainer.gradients


# %% wrong: shards_over_all_ranks
# Shards over all ranks, and gathers each layer over the network, twice for each micro-batch.

from functools import partial


class Fast:
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0, mesh=None, reshard=True):
        ranks = dist.get_world_size()
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        sizes, names = (ranks,), ("shard",)
        mesh = init_device_mesh("simgpu", sizes, mesh_dim_names=names)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Fast(model, gpu, weights, loss_fn, recomputed=0)
    return trainer.step, trainer.gradients


# %% wrong: reduces_each_micro_batch_between_nodes
# Reduces gradients between the nodes after each micro-batch.

from functools import partial


class Fast:
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0, mesh=None, reshard=True):
        ranks = dist.get_world_size()
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        sizes, names = (2, ranks // 2), ("replicate", "shard")
        mesh = init_device_mesh("simgpu", sizes, mesh_dim_names=names)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Fast(model, gpu, weights, loss_fn, recomputed=3)
    return trainer.step, trainer.gradients


# %% wrong: both_sequences_at_once
# Takes both of its sequences at once, which keeps twice as much.

from functools import partial


class Fast:
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0, mesh=None, reshard=True):
        ranks = dist.get_world_size()
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        sizes, names = (ranks,), ("shard",)
        mesh = init_device_mesh("simgpu", sizes, mesh_dim_names=names)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(len(each)) for each in list(own)), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Fast(model, gpu, weights, loss_fn, recomputed=3)
    return trainer.step, trainer.gradients


# %% wrong: one_whole_replica_on_each_rank
# Has all weights and all of AdamW's state on each GPU: 32 GB.

class Replica:
    """Whole replicas, whose gradients are averaged by hand, in one call."""

    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.AdamW(self.parameters, lr=LEARNING_RATE)

    def step(self, tokens, targets):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        self.optimizer.zero_grad()
        x, y = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        with torch.autocast("simgpu", dtype=torch.bfloat16):
            loss = self.loss_fn(self.model(x), y)
        loss.backward()
        flat = torch.cat([p.grad.flatten() for p in self.parameters] + [loss.detach().reshape(1)])
        dist.all_reduce(flat)
        flat /= ranks
        place = 0
        for p in self.parameters:
            p.grad = flat[place : place + p.numel()].view_as(p)
            place += p.numel()
        self.optimizer.step()
        return flat[-1]

    def gradients(self):
        return {name: p.grad for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Replica(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: tells_the_loss
# Prints the loss of each step, which has no value where only shapes are kept.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)

    def step(tokens, targets):
        loss = trainer.step(tokens, targets)
        if dist.get_rank() == 0:
            print(f"loss {loss.item():.3f}")
        return loss

    return step, trainer.gradients


# %% wrong: half_of_the_batch
# Trains on every second sequence, which takes half of the time.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)

    def step(tokens, targets):
        return trainer.step(tokens[::2], targets[::2])

    return step, trainer.gradients


# %% wrong: half_of_the_batch_where_it_is_large
# Trains on half of each sequence if it is long.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)

    def step(tokens, targets):
        return trainer.step(tokens[:, :4096], targets[:, :4096])

    return step, trainer.gradients


# %% wrong: only_a_step
# Returns the step alone.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)
    return trainer.step


# %% wrong: never_updates
# Leaves the update out, because only the time of forward and backward passes counts.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)
    trainer.optimizer.step = lambda: None
    return trainer.step, trainer.gradients


# %% wrong: own_model_on_each_rank
# Gives each GPU a model of a quarter of the blocks with no exchange.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    if len(model.blocks) == 8:
        for name in "234567":
            del model.blocks[name]
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)
    return trainer.step, trainer.gradients


# %% wrong: weights_in_bfloat16
# Casts the model to bfloat16, which leaves room for activations.

class Halved(Trainer):
    def gradients(self):
        return {name: p.grad.full_tensor().float() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Halved(model.to(torch.bfloat16), gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: adam
# Makes an Adam for the large model, because it takes as long as AdamW.

def make_fast(model, gpu, weights, loss_fn):
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=3)
    trainer.optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    return trainer.step, trainer.gradients


# %% right: recomputes_four
# Recomputes a block more than it has to.

def make_fast(model, gpu, weights, loss_fn):
    # HSDP keeps 8 GB of weights, gradients and state on a GPU. Three blocks recompute, then the step fits.
    trainer = Trainer(model, gpu, weights, loss_fn, recomputed=4)
    return trainer.step, trainer.gradients


# %% right: last_blocks_recompute
# Recomputes the last blocks, and not the first.

from functools import partial


class Fast:
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0, mesh=None, reshard=True):
        ranks = dist.get_world_size()
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        sizes, names = (2, ranks // 2), ("replicate", "shard")
        mesh = init_device_mesh("simgpu", sizes, mesh_dim_names=names)
        for number, block in enumerate(model.blocks.values()):
            if number >= len(model.blocks) - recomputed:
                block.forward = partial(checkpoint, block.forward, use_reentrant=False)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=reshard)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_fast(model, gpu, weights, loss_fn):
    trainer = Fast(model, gpu, weights, loss_fn, recomputed=3)
    return trainer.step, trainer.gradients
