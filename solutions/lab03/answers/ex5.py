# %% wrong: all_parts_on_the_first_place
# Puts all parts on one device, where they work well.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(places[0])
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(places[0]))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: copies_of_the_parts
# Trains copies of the parts and leaves the given ones as they were.

def train(preprocess, parts, places, loss_fn, batches, lr):
    import copy

    parts = [copy.deepcopy(part).to(place) for part, place in zip(parts, places, strict=True)]
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: detached_between_parts
# Thinks that a result must be detached before it changes its device, so only the last part learns.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.detach().to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: last_loss_only
# Returns the last loss, not all of them.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


# %% wrong: last_part_only
# Gives the optimizer the parameters of `part`, which after the loop is the last one.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD(part.parameters(), lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: loss_after_the_update
# Runs the chain once more and keeps the loss after the update.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        losses.append(loss_fn(x, y.to(x.device)).item())
    return losses


# %% wrong: mean_loss
# Returns one mean over all batches in a list.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return [sum(losses) / len(losses)]


# %% wrong: momentum_forgotten
# Takes the SGD of the lesson's first loop, without momentum.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: optimizer_in_the_loop
# Makes a new optimizer for each batch, so that its momentum is lost.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: parts_not_moved
# Thinks that moving the batch is enough, and leaves the parts on the CPU.

def train(preprocess, parts, places, loss_fn, batches, lr):
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: preprocess_forgotten
# Gives the first part the raw whole numbers.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = raw
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: preprocess_on_the_gpu
# Sends the raw batch to the first GPU and preprocesses it there.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw.to(places[0]))
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: target_on_device1
# Sends the targets to the notebook's device1.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(device1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: target_on_the_first_place
# Sends the targets to where the chain begins.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(places[0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: tensors_in_the_list
# Keeps the losses as tensors, each with its graph.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


# %% wrong: two_parts_by_heart
# Knows of two parts only, as in the lesson's first model.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        x = parts[0](x.to(places[0]))
        x = parts[1](x.to(places[1]))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: zero_grad_forgotten
# Thinks that each batch starts with gradients of zero by itself.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% wrong: rate_of_the_example
# Writes down the learning rate of the example, not the one that is given.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=0.1, momentum=0.9)
    losses = []
    for raw, y in batches:
        output = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            output = part(output.to(place))
        loss = loss_fn(output, y.to(output.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% right: functional
# Folds the parts over the batch with functools.reduce, and preprocesses all batches first.

from functools import reduce


def train(preprocess, parts, places, loss_fn, batches, lr):
    stages = [(part.to(place), place) for part, place in zip(parts, places, strict=True)]
    optimizer = torch.optim.SGD(
        [{"params": list(part.parameters())} for part, _ in stages if list(part.parameters())], lr, 0.9
    )
    ready = [(preprocess(raw), y) for raw, y in batches]

    def one(x, y):
        output = reduce(lambda value, stage: stage[0](value.to(stage[1])), stages, x)
        loss = loss_fn(output, y.to(output.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return [one(x, y) for x, y in ready]


# %% right: losses_fetched_at_the_end
# Keeps detached losses on the device and fetches all numbers after the last batch.

def train(preprocess, parts, places, loss_fn, batches, lr):
    optimizers = []
    for part, place in zip(parts, places, strict=True):
        part.to(place)
        if list(part.parameters()):
            optimizers.append(torch.optim.SGD(part.parameters(), lr=lr, momentum=0.9))
    kept = []
    for raw, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=False)
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        loss.backward()
        [optimizer.step() for optimizer in optimizers]
        kept.append(loss.detach())
    return [loss.item() for loss in kept]


# %% right: one_optimizer
# One optimizer for the parameters of all parts.

def train(preprocess, parts, places, loss_fn, batches, lr):
    for part, place in zip(parts, places, strict=True):
        part.to(place)
    optimizer = torch.optim.SGD([p for part in parts for p in part.parameters()], lr=lr, momentum=0.9)
    losses = []
    for raw, y in batches:
        x = preprocess(raw)
        for part, place in zip(parts, places, strict=True):
            x = part(x.to(place))
        loss = loss_fn(x, y.to(x.device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# %% right: sequential_parameters
# Collects the parameters with a Sequential, and enumerates the parts.

def train(preprocess, parts, places, loss_fn, batches, lr):
    chain = nn.Sequential(*parts)
    for number, part in enumerate(chain):
        part.to(places[number])
    optimizer = torch.optim.SGD(chain.parameters(), lr=lr, momentum=0.9, foreach=False)
    losses = []
    chain.train()
    for raw, y in batches:
        optimizer.zero_grad()
        x = preprocess(raw)
        for number in range(len(chain)):
            x = chain[number](x.to(places[number]))
        y = y.to(places[-1])
        loss = loss_fn(x, y)
        print(f"loss {loss.item():.4f}")
        loss.backward()
        optimizer.step()
        losses += [float(loss)]
    return losses
