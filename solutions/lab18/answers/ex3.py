"""Answers to exercise 3 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: norm_weights_not_summed
# Thinks that a parameter that each rank has gets the same gradient on each rank.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: mean_for_sum
# Averages the gradients of the ranks' own tokens, as data parallelism does.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: all_replicas_summed
# Sums the gradients of all parameters that each rank has, also of those that see all tokens.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if not p.tensor_model_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: all_replicas_averaged
# Averages the gradients of all parameters that each rank has.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if not p.tensor_model_parallel:
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: everything_summed
# Sums all gradients over the ranks, those of the shards, too.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: as_data_parallelism
# Averages all gradients over the ranks, as data parallelism does.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        dist.all_reduce(p.grad)
        p.grad /= dist.get_world_size()
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: replicas_counted_on_each_rank
# Adds up the squares of all parameters over all ranks, so that a replica counts as often as there are ranks.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = sum(p.grad.square().sum() for p in trained)
    dist.all_reduce(square)
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: norm_of_this_rank
# Clips by the norm of the rank's own gradients.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = sum(p.grad.square().sum() for p in trained)
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: clips_as_on_one_device
# Sums what has to be summed, and leaves the clipping to clip_grad_norm_, which knows one rank.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: norm_before_the_sum
# Computes the norm first, and sums the gradients of the ranks' own tokens later.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: sum_of_norms
# Adds up the ranks' norms. Squares add up, norms do not.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    total = square.sqrt()
    dist.all_reduce(total)
    for p in trained:
        if not p.tensor_model_parallel:
            total += p.grad.norm()
    norm = total
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: largest_norm
# Takes the largest of the ranks' norms, so that all clip by the same.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = sum(p.grad.square().sum() for p in trained)
    dist.all_reduce(square, op=dist.ReduceOp.MAX)
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: mean_of_squares
# Averages the ranks' squares.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = sum(p.grad.square().sum() for p in trained)
    dist.all_reduce(square)
    square /= dist.get_world_size()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: shards_only
# Leaves the parameters that each rank has out of the norm.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: square_for_norm
# Returns and clips by the square of the norm.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: small_gradients_enlarged
# Scales each gradient to max_norm, also one that is smaller.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= max_norm / (norm + 1e-6)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: not_clipped
# Computes the norm and does not clip.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        pass
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: each_parameter_clipped
# Clips each parameter by its own norm.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (p.grad.norm() + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: shards_clipped_only
# Clips the shards and not the parameters that each rank has.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        if p.tensor_model_parallel:
            p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: clipped_after_the_step
# Clips after the optimizer has used the gradients.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    optimizer.step()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return loss.item(), norm.item()


# %% wrong: norm_after_clipping
# Returns the norm of the clipped gradients.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), min(norm.item(), max_norm)


# %% wrong: one_rank_only
# Lets rank 0 alone sum up. The others do not take part in its all-reduce.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            if dist.get_rank() == 0:
                dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: frozen_forgotten
# Takes for granted that each parameter has a gradient.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [*model.parameters()]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: weights_averaged_instead
# Leaves the gradients as they are and averages the replicas' weights after the step.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    with torch.no_grad():
        for p in trained:
            if p.sequence_parallel:
                dist.all_reduce(p)
                p /= dist.get_world_size()
    return loss.item(), norm.item()


# %% wrong: returns_tensors
# Returns tensors.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.detach(), norm


# %% wrong: loss_summed
# Sums the loss over the ranks. Each has that of all tokens.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    loss = loss.detach()
    dist.all_reduce(loss)
    return loss.item(), norm.item()


# %% wrong: by_name_in_place_of_marks
# Goes by the names of the parameters. Inside another module they have other names.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    sharded, replicated = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        if name in ("norm.weight", "norm.bias", "down.bias"):
            dist.all_reduce(p.grad)
        square = p.grad.double().pow(2).sum()
        if p.tensor_model_parallel:
            sharded += square
        else:
            replicated += square
    dist.all_reduce(sharded)
    norm = (sharded + replicated).sqrt()
    scale = min(1.0, max_norm / (norm.item() + 1e-6))
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(scale)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: zeros_for_frozen
# Gives frozen parameters gradients of zeros, so that weight decay changes them.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    sharded, replicated = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    for p in model.parameters():
        if p.grad is None:
            p.grad = torch.zeros_like(p)
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
        square = p.grad.double().pow(2).sum()
        if p.tensor_model_parallel:
            sharded += square
        else:
            replicated += square
    dist.all_reduce(sharded)
    norm = (sharded + replicated).sqrt()
    scale = min(1.0, max_norm / (norm.item() + 1e-6))
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(scale)
    optimizer.step()
    return loss.item(), norm.item()


# %% wrong: norm_layers_only
# Takes the layer norms for all that sequence parallelism touches, and forgets the bias after the reduce-scatter.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    shards = torch.zeros(())
    copies = torch.zeros(())
    for name, p in model.named_parameters():
        if p.grad is None:
            continue
        if 'norm' in name:
            dist.all_reduce(p.grad)
        if p.tensor_model_parallel:
            shards += p.grad.square().sum()
        else:
            copies += p.grad.square().sum()
    dist.all_reduce(shards)
    norm = (shards + copies).sqrt()
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    for p in model.parameters():
        if p.grad is not None:
            p.grad.mul_(factor)
    optimizer.step()
    return loss.item(), norm.item()


# %% right: one_by_one
# Parameter by parameter, the square of the shards reduced once.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    trained = [p for p in model.parameters() if p.grad is not None]
    for p in trained:
        if p.sequence_parallel:
            dist.all_reduce(p.grad)
    square = torch.zeros(())
    for p in trained:
        if p.tensor_model_parallel:
            square += p.grad.square().sum()
    dist.all_reduce(square)
    for p in trained:
        if not p.tensor_model_parallel:
            square += p.grad.square().sum()
    norm = square.sqrt()
    for p in trained:
        p.grad *= torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    optimizer.step()
    return loss.item(), norm.item()


# %% right: in_one_bucket
# The gradients of the ranks' own tokens in one flat tensor: one all-reduce instead of three.

from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    gradients = {"shard": [], "own tokens": [], "all tokens": []}
    for p in model.parameters():
        if p.requires_grad:
            kind = "shard" if p.tensor_model_parallel else "own tokens" if p.sequence_parallel else "all tokens"
            gradients[kind].append(p.grad)
    if gradients["own tokens"]:
        flat = _flatten_dense_tensors(gradients["own tokens"])
        dist.all_reduce(flat)
        for gradient, whole in zip(gradients["own tokens"], _unflatten_dense_tensors(flat, gradients["own tokens"])):
            gradient.copy_(whole)
    squares = {kind: sum(float(g.double().norm()) ** 2 for g in own) for kind, own in gradients.items()}
    shards = torch.tensor([squares["shard"]], dtype=torch.float64)
    dist.all_reduce(shards)
    norm = (shards.item() + squares["own tokens"] + squares["all tokens"]) ** 0.5
    if norm > max_norm:
        for own in gradients.values():
            for gradient in own:
                gradient.mul_(max_norm / norm)
    optimizer.step()
    return loss.item(), norm


# %% right: replicas_divided
# A replica counts on each rank by its share, 1 / ranks, so that one sum over all ranks is right.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    ranks = dist.get_world_size()
    total = torch.zeros(1)
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        if gradient is None:
            continue
        if parameter.sequence_parallel:
            dist.all_reduce(gradient, op=dist.ReduceOp.SUM)
        share = 1 if parameter.tensor_model_parallel else ranks
        total += torch.linalg.vector_norm(gradient) ** 2 / share
    dist.all_reduce(total)
    norm = total.sqrt().item()
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), max_norm, torch.tensor(norm))
    optimizer.step()
    return loss.item(), norm


# %% right: rank_0_counts_replicas
# As Megatron-LM does it: of the parameters that each rank has, the first rank's count.

def train_step(model, optimizer, x, y, max_norm):
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    group = dist.group.WORLD
    partial = [p.grad for p in model.parameters() if p.sequence_parallel and p.grad is not None]
    works = [dist.all_reduce(each, group=group, async_op=True) for each in partial]
    [work.wait() for work in works]
    counted = [
        p.grad
        for p in model.parameters()
        if p.grad is not None and (p.tensor_model_parallel or dist.get_rank(group) == 0)
    ]
    norm = torch.nn.utils.get_total_norm(counted).pow(2) if counted else torch.tensor(0.0)
    dist.all_reduce(norm, group=group)
    norm = norm.sqrt()
    scale = min(1.0, max_norm / (norm.item() + 1e-6))
    for p in model.parameters():
        if p.grad is not None:
            p.grad = p.grad * scale
    optimizer.step()
    return loss.item(), norm.item()
