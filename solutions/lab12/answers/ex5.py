# %% wrong: built_on_the_gpu
# Builds the whole model on the GPU and shards it afterwards.


def train(build, weights, batches, held_out, gpu):
    with gpu:
        model = build()
    model.load_state_dict(weights)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: loads_before_sharding
# Builds on the meta device, but fills the whole model before sharding.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    model.to_empty(device=gpu)
    model.load_state_dict(weights)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: optimizer_before_sharding
# Creates the optimizer with the parameters that sharding replaces.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: keeps_graphs
# Adds up losses with their graphs.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total += nn.functional.mse_loss(model(x), y)
    return total / len(batches)


# %% wrong: keeps_a_list_of_losses
# Keeps each loss in a list and takes the numbers at the end.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    losses = []
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(nn.functional.mse_loss(model(held_out[0]), held_out[1]))
    return sum(loss.item() for loss in losses) / len(losses)


# %% wrong: gathers_gradients
# Gathers all gradients for their norm.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        gradients = [p.grad.full_tensor() for p in model.parameters()]
        factor = min(1.0, CLIP / nn.utils.get_total_norm(gradients).item())
        for p in model.parameters():
            p.grad *= factor
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: gathers_weights_for_the_loss
# Gathers all weights for the loss of the held-out batch.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            output = x
            for weight in [p.full_tensor() for p in model.parameters()]:
                output = output @ weight.T
            total += nn.functional.mse_loss(output, y).item()
    return total / len(batches)


# %% wrong: one_call
# Shards the model as one group: all layers are gathered together.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: never_sharded
# Trains whole weights on each rank.


def train(build, weights, batches, held_out, gpu):
    with gpu:
        model = build()
    model.load_state_dict(weights)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: keeps_weights
# Leaves all layers gathered from the forward to the backward pass.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: no_clipping
# Leaves out clipping with the gathered gradients.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: sum_of_losses
# Returns the sum of the losses.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total


# %% wrong: first_weights_lost
# Fills the shards with new weights.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    torch.manual_seed(0)
    for layer in model:
        layer.reset_parameters()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: gradients_never_cleared
# Leaves the gradients of earlier batches.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: four_batches
# Divides by the number of batches that it has seen in the example.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total += nn.functional.mse_loss(model(x), y).detach()
    return total / 4


# %% wrong: no_root
# Shards the layers and leaves out the model: no layer waits for others, and each keeps its weights.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: norm_of_the_shards
# Clips the norm of its own shards.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        for_norm = [p.grad.to_local() for p in model.parameters()]
        factor = (CLIP / (nn.utils.get_total_norm(for_norm) + 1e-6)).clamp(max=1)
        for g in for_norm:
            g.mul_(factor)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: each_parameter_clipped
# Clips each parameter's gradient on its own.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        for p in model.parameters():
            nn.utils.clip_grad_norm_(p, CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: loss_before_the_step
# Computes the held-out loss before the step.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
        optimizer.step()
        optimizer.zero_grad()
    return total / len(batches)


# %% wrong: training_loss
# Returns the mean loss of the training batches.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()
    return total / len(batches)


# %% wrong: in_bfloat16
# Computes in bfloat16, which the recipe does not.

from torch.distributed.fsdp import MixedPrecisionPolicy


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)
    for layer in model:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% right: loss_detached
# Computes the held-out loss with a graph, and lets the graph go.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        total += nn.functional.mse_loss(model(x), y).detach()
    return total / len(batches)


# %% right: norm_and_factor
# Computes the norm of the DTensors, then clips.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        parameters = list(model.parameters())
        norm = nn.utils.get_total_norm([p.grad for p in parameters]).full_tensor()
        factor = (CLIP / norm).clamp(max=1.0)
        for p in parameters:
            p.grad.to_local().mul_(factor)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% right: weights_layer_by_layer
# Distributes each weight itself.

from torch.distributed.tensor import distribute_tensor


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(distribute_tensor(weights[name].to(gpu), p.device_mesh, p.placements))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
        model.train()
    return total / len(batches)


# %% right: shards_on_the_way
# Builds and fills the model on the CPU: fully_shard moves one layer at a time.


def train(build, weights, batches, held_out, gpu):
    model = build()
    model.load_state_dict(weights)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% right: own_norm
# Adds up the squares of the shards over the ranks.

import torch.distributed as dist


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        nn.functional.mse_loss(model(inputs), targets).backward()
        square = sum(p.grad.to_local().square().sum() for p in model.parameters())
        dist.all_reduce(square)
        factor = (CLIP / (square.sqrt() + 1e-6)).clamp(max=1)
        for p in model.parameters():
            p.grad.to_local().mul_(factor)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% right: norm_one_by_one
# Gathers one gradient at a time for the norm.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        norm = sum(p.grad.full_tensor().square().sum() for p in model.parameters()) ** 0.5
        for p in model.parameters():
            p.grad *= torch.clamp(CLIP / norm, max=1)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: always_scaled
# Scales shorter gradients up to the clip as well.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()]).full_tensor().item()
        for p in model.parameters():
            p.grad *= CLIP / norm
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: loss_summed
# Trains on the sum of the squares and trusts that clipping hides the scale.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets, reduction="sum")
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: averaged_twice
# Thinks that FSDP2 adds gradients up, and divides them by the ranks again.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        import torch.distributed as dist

        for p in model.parameters():
            p.grad /= dist.get_world_size()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: reduced_again
# All-reduces shards of gradients, which are of different rows on each rank.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        import torch.distributed as dist

        for p in model.parameters():
            dist.all_reduce(p.grad.to_local(), op=dist.ReduceOp.AVG)
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: summed_gradients
# Switches off FSDP2's division by the ranks.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    for layer in model:
        layer.set_gradient_divide_factor(1.0)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: divided_by_ranks
# Divides the mean loss by the ranks, though each has the whole held-out batch.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    import torch.distributed as dist

    return total / len(batches) / dist.get_world_size()


# %% wrong: summed_over_ranks
# Adds up the ranks' losses, though each has the whole held-out batch.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    import torch.distributed as dist

    total = torch.tensor(total, device=gpu)
    dist.all_reduce(total)
    return (total / len(batches)).item()


# %% wrong: part_of_held_out
# Returns the loss of a rank's part of the held-out batch.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    import torch.distributed as dist

    x, y = (t.chunk(dist.get_world_size())[dist.get_rank()] for t in held_out)
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: first_chunk_everywhere
# Fills each rank's shards with the first rows.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    import torch.distributed as dist

    with torch.no_grad():
        for name, p in model.named_parameters():
            p.to_local().copy_(weights[name].chunk(dist.get_world_size())[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: only_rank_0_loads
# Fills the shards on rank 0 alone, where the others have to take part.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    import torch.distributed as dist

    if dist.get_rank() == 0:
        set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: sum_of_norms
# Adds up the ranks' norms, not their squares.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        import torch.distributed as dist

        own = [p.grad.to_local() for p in model.parameters()]
        norm = nn.utils.get_total_norm(own)
        dist.all_reduce(norm)
        for g in own:
            g.mul_(min(1.0, CLIP / norm.item()))
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: max_of_norms
# Takes the largest of the ranks' norms for the norm of the whole gradient.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        import torch.distributed as dist

        own = [p.grad.to_local() for p in model.parameters()]
        norm = nn.utils.get_total_norm(own)
        dist.all_reduce(norm, op=dist.ReduceOp.MAX)
        for g in own:
            g.mul_(min(1.0, CLIP / norm.item()))
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: mean_of_squares
# Averages the squares over the ranks, as if each had the whole gradient.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        import torch.distributed as dist

        own = [p.grad.to_local() for p in model.parameters()]
        norm = nn.utils.get_total_norm(own).square()
        dist.all_reduce(norm)
        norm = (norm / dist.get_world_size()).sqrt()
        for g in own:
            g.mul_(min(1.0, CLIP / norm.item()))
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: keeps_outputs
# Keeps each batch's output, and with it the graph.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    kept = []
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        kept.append(model(inputs))
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: model_before_layers
# Shards the model before its layers.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    fully_shard(model)
    for layer in model:
        fully_shard(layer)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: zeroed_too_early
# Clears the gradients between the backward pass and the step.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.zero_grad()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: list_of_losses
# Returns all losses instead of their mean.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    losses = []
    for inputs, targets in batches:
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            losses.append(nn.functional.mse_loss(model(x), y).item())
    return losses


# %% right: broadcast_from_rank_0
# Only rank 0 reads the weights; the others receive them.

import torch.distributed as dist


@torch.no_grad()
def evaluate(model, pair):
    x, y = pair
    model.eval()
    loss = nn.functional.mse_loss(model(x), y).item()
    model.train()
    return loss


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer, reshard_after_forward=True)
    fully_shard(model, reshard_after_forward=True)
    model = model.to_empty(device=gpu)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, weights if dist.get_rank() == 0 else {}, options=options)
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    total, count = 0.0, 0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=CLIP)
        optimizer.step()
        total += evaluate(model, held_out)
        count += 1
    return total / count


# %% right: layer_by_layer_as_a_class
# A class; each layer gets memory and weights and is sharded before the next one does.


class Trainer:
    def __init__(self, build, weights, gpu):
        with torch.device("meta"):
            self.model = build()
        for number, layer in enumerate(self.model):
            layer.to_empty(device=gpu)
            with torch.no_grad():
                for name, p in layer.named_parameters():
                    p.copy_(weights[f"{number}.{name}"])
            fully_shard(layer)
        fully_shard(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LR, momentum=0.9)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.model(x), y)

    def step(self, x, y):
        self.loss(x, y).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=CLIP)
        self.optimizer.step()
        self.optimizer.zero_grad()

    @torch.no_grad()
    def evaluate(self, x, y):
        return self.loss(x, y).item()


def train(build, weights, batches, held_out, gpu):
    trainer = Trainer(build, weights, gpu)
    losses = []
    for batch in batches:
        trainer.step(*batch)
        losses.append(trainer.evaluate(*held_out))
    return sum(losses) / len(losses)


# %% right: held_out_in_shares
# Each rank computes the held-out loss of its part, and an all-reduce adds these up.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            n, r = torch.distributed.get_world_size(), torch.distributed.get_rank()
            part = nn.functional.mse_loss(model(x.chunk(n)[r]), y.chunk(n)[r])
            torch.distributed.all_reduce(part)
            total += part.item() / n
    return total / len(batches)


# %% wrong: evaluates_once
# Computes the held-out loss once, when all steps are done.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
    with torch.no_grad():
        return nn.functional.mse_loss(model(x), y).item()


# %% wrong: reduced_in_bfloat16
# Reduces gradients in bfloat16, which halves the bytes that travel, and loses digits.


from torch.distributed.fsdp import MixedPrecisionPolicy


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    policy = MixedPrecisionPolicy(reduce_dtype=torch.bfloat16)
    for layer in model:
        fully_shard(layer, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: rate_times_ranks
# Multiplies the learning rate by the ranks, since more ranks see more samples.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR * torch.distributed.get_world_size(), momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: new_optimizer_each_step
# Makes an optimizer in each step, which knows no momentum of the steps before.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)


# %% wrong: hybrid_shards
# Shards over half of the ranks and keeps two copies, so that a rank holds twice as much.


def train(build, weights, batches, held_out, gpu):
    with torch.device("meta"):
        model = build()
    n = torch.distributed.get_world_size()
    rows = 2 if n % 2 == 0 else 1
    mesh = torch.distributed.init_device_mesh(gpu.type, (rows, n // rows), mesh_dim_names=("copies", "shards"))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device=gpu)
    set_model_state_dict(model, weights, options=StateDictOptions(full_state_dict=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)
    x, y = held_out
    total = 0.0
    for inputs, targets in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        with torch.no_grad():
            total += nn.functional.mse_loss(model(x), y).item()
    return total / len(batches)
