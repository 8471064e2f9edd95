"""Answers to exercise 1 that the grader is tested with. tests/support/answers.py says how to read them."""

def recomputing(forward):
    return lambda x: checkpoint(forward, x, use_reentrant=False)


class Trainer:
    """Shards within a node, and replicas in both (HSDP)."""

    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
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
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total

    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters()}


# %% wrong: sum_of_micro_batches
# Adds up the gradients of the micro-batches, each of which has a mean loss of its own.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y)
            loss.backward()
            total += loss.detach() / len(parts)
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: divided_by_the_ranks_too
# Divides the loss by the number of ranks, which fully_shard does again with the gradients.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts) / ranks
            loss.backward()
            total += loss.detach() * ranks
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: never_cleared
# Lets gradients add up over the steps, because micro-batches add up, too.

class Mine(Trainer):
    def step(self, tokens, targets):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: the_same_sequences_everywhere
# Gives all ranks the first part of the batch.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[0].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: sequences_by_place_in_the_node
# Takes its part of the batch by its place in the node, so that both nodes train on the same half.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank % (ranks // 2)].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: its_own_loss
# Returns the mean loss of its own sequences.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: loss_added_up
# Adds up the mean losses of all ranks.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.SUM)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: loss_of_the_last_micro_batch
# Returns the loss of the last micro-batch.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total = loss.detach() * len(parts)
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: returns_no_loss
# Thinks that a step has nothing to return.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: shards_as_gradients
# Returns the shards that each rank has, and not whole gradients.

class Mine(Trainer):
    def gradients(self):
        return {name: p.grad.to_local() for name, p in self.model.named_parameters()}


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: no_reduction_between_nodes
# Shards over the ranks of its node, and thinks that the other node gets the same by itself.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))["shard"]
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
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


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: reduces_the_first_micro_batch_only
# Takes the first micro-batch for the one whose all-reduce has all gradients.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == 1)
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: first_weights_of_its_own
# Initializes the layers by PyTorch, and leaves the given weights.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        torch.manual_seed(0)
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: sgd
# Trains with SGD, as the labs before did.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: another_learning_rate
# Leaves the learning rate that AdamW has by default.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), fused=True)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: adamw_made_in_each_step
# Makes AdamW in each step, so that its moments and its count of steps begin at 0 each time.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=LEARNING_RATE)
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: steps_after_each_micro_batch
# Updates after each micro-batch.

class Mine(Trainer):
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


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: blocks_alone
# Shards and names the blocks, and forgets embedding and head in gradients().

class Mine(Trainer):
    def gradients(self):
        return {name: p.grad.full_tensor() for name, p in self.model.named_parameters() if name.startswith("blocks")}


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: names_without_their_blocks
# Names parameters by the last part of their names.

class Mine(Trainer):
    def gradients(self):
        return {name.rpartition("blocks.")[2]: p.grad.full_tensor() for name, p in self.model.named_parameters()}


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: clips
# Clips gradients to a norm of 1, as recipes for training do.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.chunk(ranks)[rank].to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: everything_on_each_rank
# Computes the whole batch on each rank: right gradients, and no time is saved.

class Mine(Trainer):
    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, ranks = dist.get_rank(), dist.get_world_size()
        own = (each.to(self.gpu) for each in (tokens, targets))
        parts = list(zip(*(each.split(1) for each in own), strict=True))
        total = torch.zeros((), device=self.gpu)
        for number, (x, y) in enumerate(parts, 1):
            # Between nodes, gradients are only needed once: after the last micro-batch.
            self.model.set_requires_all_reduce(number == len(parts))
            loss = self.loss_fn(self.model(x), y) / len(parts)
            loss.backward()
            total += loss.detach()
        self.optimizer.step()
        dist.all_reduce(total, dist.ReduceOp.AVG)
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: four_ranks_always
# Has shards over four ranks, because a node has four GPUs here.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (max(1, ranks // 4), min(ranks, 4)), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: gradients_in_bfloat16_all_the_way
# Turns the model into bfloat16, weights and AdamW's state included.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu).bfloat16()
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: weights_in_bfloat16
# Casts the model itself to bfloat16, so AdamW's state is in bfloat16 too.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model.to(torch.bfloat16)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def gradients(self):
        return {name: p.grad.full_tensor().float() for name, p in self.model.named_parameters()}


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: adam
# Takes Adam for AdamW: no weight decay.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: no_decay_of_norms
# Leaves norms without weight decay, as many recipes do; the text asks for the defaults.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [p for p in model.parameters() if p.dim() > 1]},
                {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0},
            ],
            lr=LEARNING_RATE,
        )


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% right: hsdp_in_float32
# Shards in nodes, keeps gathered weights, and computes in float32.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("replicate", "shard"))
        precision = MixedPrecisionPolicy()
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision, reshard_after_forward=False)
        fully_shard(model, mesh=mesh, mp_policy=precision, reshard_after_forward=False)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% right: replicas_by_hand
# A whole replica on each rank, and one all-reduce of everything.

class Mine:
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


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: replicas_never_meet
# Has a replica on each rank, and forgets to average their gradients.

class Mine:
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
        place = 0
        for p in self.parameters:
            p.grad = flat[place : place + p.numel()].view_as(p)
            place += p.numel()
        self.optimizer.step()
        return flat[-1]

    def gradients(self):
        return {name: p.grad for name, p in self.model.named_parameters()}


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: replicas_added_up
# Adds up the gradients of all replicas.

class Mine:
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
        place = 0
        for p in self.parameters:
            p.grad = flat[place : place + p.numel()].view_as(p)
            place += p.numel()
        self.optimizer.step()
        return flat[-1] / ranks

    def gradients(self):
        return {name: p.grad for name, p in self.model.named_parameters()}


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% right: tensor_parallel_and_shards
# Two ranks divide each block, and all pairs share the batch.

from torch.distributed.tensor import DTensor


from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        tensor = 2 if ranks % 4 == 0 else 1
        mesh = init_device_mesh("simgpu", (ranks // tensor, tensor), mesh_dim_names=("data", "tensor"))
        plan = {each: ColwiseParallel() for each in ("q", "k", "v", "gate", "up")}
        plan |= {each: RowwiseParallel() for each in ("o", "down")}
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks.values():
            if tensor > 1:
                parallelize_module(block, mesh["tensor"], plan)
            fully_shard(block, mesh=mesh["data"], mp_policy=precision)
        fully_shard(model, mesh=mesh["data"], mp_policy=precision)
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn, self.data = model, gpu, loss_fn, mesh["data"]
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, foreach=False)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, parts = self.data.get_local_rank(), self.data.size()
        x, y = (each.chunk(parts)[rank].to(self.gpu) for each in (tokens, targets))
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        total = loss.detach()
        dist.all_reduce(total, dist.ReduceOp.AVG, group=self.data.get_group())
        return total


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% right: pipeline_of_two_nodes
# 1F1B with a stage in each node, in float32.

from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class Mine:
    """A pipeline of two stages, one in each node; the ranks of a node are replicas of its stage."""

    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        self.names = [name for name, _ in model.named_parameters()]
        self.sizes = {name: p.shape for name, p in model.named_parameters()}
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("stage", "data"))
        self.pipe, self.data = mesh["stage"], mesh["data"]
        self.number, half = self.pipe.get_local_rank(), len(model.blocks) // 2
        for name in list(model.blocks):
            if (int(name) < half) != (self.number == 0):
                del model.blocks[name]
        if self.number == 0:
            model.norm = model.head = None
        else:
            model.embed = None
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.stage = PipelineStage(model, self.number, 2, gpu, group=self.pipe.get_group())
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, parts = self.data.get_local_rank(), self.data.size()
        x, y = (each.chunk(parts)[rank].to(self.gpu) for each in (tokens, targets))
        schedule = Schedule1F1B(self.stage, n_microbatches=len(x), loss_fn=self.loss_fn)
        losses = []
        if self.number == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        for p in self.model.parameters():
            dist.all_reduce(p.grad, dist.ReduceOp.AVG, group=self.data.get_group())
        self.optimizer.step()
        total = torch.stack(losses).mean().detach() if losses else torch.zeros((), device=self.gpu)
        dist.all_reduce(total)
        return total / parts

    def gradients(self):
        own, found = dict(self.model.named_parameters()), {}
        for name in self.names:
            gradient = own[name].grad.clone() if name in own else torch.zeros(self.sizes[name], device=self.gpu)
            dist.all_reduce(gradient, group=self.pipe.get_group())
            found[name] = gradient
        return found


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% wrong: pipeline_of_replicas_that_never_meet
# Sends activations from stage to stage, and forgets that the ranks of a stage are replicas.

from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class Mine:
    """A pipeline of two stages, one in each node; the ranks of a node are replicas of its stage."""

    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        self.names = [name for name, _ in model.named_parameters()]
        self.sizes = {name: p.shape for name, p in model.named_parameters()}
        mesh = init_device_mesh("simgpu", (2, ranks // 2), mesh_dim_names=("stage", "data"))
        self.pipe, self.data = mesh["stage"], mesh["data"]
        self.number, half = self.pipe.get_local_rank(), len(model.blocks) // 2
        for name in list(model.blocks):
            if (int(name) < half) != (self.number == 0):
                del model.blocks[name]
        if self.number == 0:
            model.norm = model.head = None
        else:
            model.embed = None
        model.to_empty(device=gpu)
        copy_weights(model, weights)
        self.model, self.gpu, self.loss_fn = model, gpu, loss_fn
        self.stage = PipelineStage(model, self.number, 2, gpu, group=self.pipe.get_group())
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, fused=True)

    def step(self, tokens, targets):
        self.optimizer.zero_grad()
        rank, parts = self.data.get_local_rank(), self.data.size()
        x, y = (each.chunk(parts)[rank].to(self.gpu) for each in (tokens, targets))
        schedule = Schedule1F1B(self.stage, n_microbatches=len(x), loss_fn=self.loss_fn)
        losses = []
        if self.number == 0:
            schedule.step(x)
        else:
            schedule.step(target=y, losses=losses)
        self.optimizer.step()
        total = torch.stack(losses).mean().detach() if losses else torch.zeros((), device=self.gpu)
        dist.all_reduce(total)
        return total / parts

    def gradients(self):
        own, found = dict(self.model.named_parameters()), {}
        for name in self.names:
            gradient = own[name].grad.clone() if name in own else torch.zeros(self.sizes[name], device=self.gpu)
            dist.all_reduce(gradient, group=self.pipe.get_group())
            found[name] = gradient
        return found


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients


# %% right: fsdp_over_all
# Shards over all ranks.

class Mine(Trainer):
    def __init__(self, model, gpu, weights, loss_fn, recomputed=0):
        ranks = dist.get_world_size()
        mesh = init_device_mesh("simgpu", (ranks,))
        precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for number, block in enumerate(model.blocks.values()):
            if number < recomputed:
                block.forward = recomputing(block.forward)
            fully_shard(block, mesh=mesh, mp_policy=precision)
        fully_shard(model, mesh=mesh, mp_policy=precision)
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


def make_trainer(model, gpu, weights, loss_fn):
    trainer = Mine(model, gpu, weights, loss_fn)
    return trainer.step, trainer.gradients
