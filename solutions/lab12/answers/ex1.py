# %% wrong: own_shard_received
# Ignores (N-1)/N: thinks that a rank also receives the shard that it has.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * whole
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: no_gather_in_backward
# Thinks that each layer is all-gathered for the forward pass only.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: gathered_once_a_step
# Counts the weights once for each kind of pass in a step, whatever the number of micro-batches.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1
                if reshard:
                    gathers += 1
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: bytes_of_ddp
# Takes the bytes of DDP's all-reduce: twice the gradients, for each reduction.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = 2 * reduces * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: reduced_once_by_itself
# Thinks that gradients are always reduced once a step, as the optimizer needs them only then.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: never_reduced
# Counts all-gathers only, and forgets that gradients travel too.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = gathers * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: kept_through_the_forward_pass
# Thinks that with keep_weights a step gathers once, though reshard_after_forward frees the weights again.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard and not keep:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: gradients_always_in_shards
# Forgets that gradients are whole until they are reduced.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + shard
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: whole_instead_of_shards
# Forgets that shards stay in memory beside the whole weights.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole - shard + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: shards_all_the_time
# Thinks that FSDP never holds whole weights, apart from the layers in flight.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: whole_state
# Thinks that each rank holds Adam's moments of the whole model.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = shard + 2 * whole + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: no_state
# Forgets Adam's two moments.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: nothing_in_flight
# Forgets the layers in flight.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 0 if reshard and not keep else whole
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: counts_numbers
# Counts numbers, not bytes.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: bytes_of_all_ranks
# Adds up what all ranks receive.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard) * ranks
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: fewest_bytes_anyway
# Takes the fewest bytes, and looks at the cap only to see whether anything fits.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways, fits = [], False
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                fits = fits or held <= cap
                ways.append((received, held, reshard, once, keep))
    if not fits:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: least_memory
# Takes the least memory, though more fits and receives fewer bytes.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways, key=lambda way: way[1])
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: all_or_nothing
# Looks at two combinations only: everything freed and reduced at once, or all three savings.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap and reshard != once and once == keep:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: reduce_once_first
# Sets one switch after the other, as long as it fits, and begins with reduce_once.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways, key=lambda way: (not way[3], way))
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: keeps_weights_first
# Sets reduce_once only where weights are kept, because it saves less.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap and not (once and reshard):
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: memory_to_spare
# Wants less than the cap.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held < cap:
                    ways.append((received, held, reshard, once, keep))
    if not ways:
        return None
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% wrong: falls_back
# Returns the smallest combination where nothing fits.

def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard, layer = whole / ranks, whole / layers
    ways = []
    for reshard in (True, False):
        for once in (False, True):
            for keep in (False, True):
                gathers = 1 if keep else micro_batches
                if reshard:
                    gathers += micro_batches
                reduces = 1 if once else micro_batches
                received = (gathers + reduces) * (whole - shard)
                held = 3 * shard + (whole if once else shard)
                held += 4 * layer if reshard and not keep else whole + 2 * layer
                if held <= cap or (reshard and not once and not keep):
                    ways.append((received, held, reshard, once, keep))
    received, held, reshard, once, keep = min(ways)
    return {
        "reshard_after_forward": reshard,
        "reduce_once": once,
        "keep_weights": keep,
        "received": received,
        "held": held,
    }


# %% right: all_eight_with_product
# Lists all combinations, drops those that do not fit, and takes the smallest.

from itertools import product


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    def costs(reshard, once, keep):
        travels = (ranks - 1) * (4 * parameters // ranks)
        forward = 1 if keep else micro_batches
        backward = micro_batches if reshard else 0
        reduces = 1 if once else micro_batches
        pieces = 3 + (ranks if once else 1)
        stays = keep or not reshard
        in_flight = 2 if stays else 4
        held = (pieces + stays * ranks) * (4 * parameters // ranks) + in_flight * (4 * parameters // layers)
        return {"received": travels * (forward + backward + reduces), "held": held}

    names = ("reshard_after_forward", "reduce_once", "keep_weights")
    found = [dict(zip(names, way)) | costs(*way) for way in product((False, True), repeat=3)]
    return min((each for each in found if each["held"] <= cap), key=lambda each: each["received"], default=None)


# %% right: from_the_fewest_bytes_up
# Knows the four combinations that none beats, from the fewest bytes to the most, and takes the first that fits.


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    w = 4 * parameters
    own, layer, m = w / ranks, w / layers, micro_batches
    ladder = [
        (False, True, True, 2, 3 * own + 2 * w + 2 * layer),
        (False, False, True, 1 + m, 4 * own + w + 2 * layer),
        (True, True, False, 2 * m + 1, 3 * own + w + 4 * layer),
        (True, False, False, 3 * m, 4 * own + 4 * layer),
    ]
    for reshard, once, keep, collectives, held in ladder:
        if held <= cap:
            return {
                "held": held,
                "received": collectives * (w - own),
                "keep_weights": keep,
                "reduce_once": once,
                "reshard_after_forward": reshard,
            }


# %% right: plays_the_step
# Plays the step pass by pass, with a flag for weights that are whole.


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    best = None
    shard, layer = 4 * parameters / ranks, 4 * parameters / layers
    for way in range(8):
        reshard, once, keep = bool(way & 1), bool(way & 2), bool(way & 4)
        collectives, whole, stays = 0, False, False
        for n in range(micro_batches):
            last = n == micro_batches - 1
            if not whole:
                collectives += 1
            whole = not reshard
            stays = stays or whole
            if not whole:
                collectives += 1
            whole = keep and not last
            stays = stays or whole
            if last or not once:
                collectives += 1
        held = 3 * shard + (layer * layers if once else shard) + (layer * (layers + 2) if stays else 4 * layer)
        received = collectives * shard * (ranks - 1)
        if held <= cap and (best is None or received < best["received"]):
            best = {
                "reshard_after_forward": reshard,
                "reduce_once": once,
                "keep_weights": keep,
                "received": received,
                "held": held,
            }
    return best


# %% right: sorted_tensors
# Tables of all combinations as tensors, and the first of those that fit in the order of bytes.


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    ways = torch.cartesian_prod(*[torch.tensor([0, 1])] * 3)
    reshard, once, keep = ways.unbind(1)
    m, whole = micro_batches, 4 * parameters
    shard, layer = whole // ranks, whole // layers
    collectives = torch.where(keep == 1, 1, m) + m * reshard + torch.where(once == 1, 1, m)
    received = collectives * (whole - shard)
    freed = (reshard == 1) & (keep == 0)
    held = 3 * shard + torch.where(once == 1, whole, shard) + torch.where(freed, 4 * layer, whole + 2 * layer)
    for row in received.argsort().tolist():
        if held[row].item() <= cap:
            flags = [bool(flag) for flag in ways[row].tolist()]
            found = dict(zip(["reshard_after_forward", "reduce_once", "keep_weights"], flags))
            return {**found, "received": received[row].item(), "held": held[row].item()}
    return None


# %% wrong: no_shards_of_gradients
# Forgets that a rank holds shards of the gradients without reduce_once.

from itertools import product


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard = whole // ranks
    layer = whole // layers
    best = None
    for reshard, once, keep in product([True, False], repeat=3):
        if reshard:
            gathers = micro_batches + 1 if keep else 2 * micro_batches
        else:
            gathers = 1 if keep else micro_batches
        reduces = 1 if once else micro_batches
        received = (gathers + reduces) * (whole - shard)
        held = 3 * shard
        held += whole if once else 0
        if reshard and not keep:
            held += 4 * layer
        else:
            held += whole + 2 * layer
        if held <= cap and (best is None or received < best["received"]):
            best = {
                "reshard_after_forward": reshard,
                "reduce_once": once,
                "keep_weights": keep,
                "received": received,
                "held": held,
            }
    return best


# %% wrong: two_bytes
# Counts two bytes per parameter.

from itertools import product


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 2 * parameters
    shard = whole // ranks
    layer = whole // layers
    best = None
    for reshard, once, keep in product([True, False], repeat=3):
        if reshard:
            gathers = micro_batches + 1 if keep else 2 * micro_batches
        else:
            gathers = 1 if keep else micro_batches
        reduces = 1 if once else micro_batches
        received = (gathers + reduces) * (whole - shard)
        held = 3 * shard
        held += whole if once else shard
        if reshard and not keep:
            held += 4 * layer
        else:
            held += whole + 2 * layer
        if held <= cap and (best is None or received < best["received"]):
            best = {
                "reshard_after_forward": reshard,
                "reduce_once": once,
                "keep_weights": keep,
                "received": received,
                "held": held,
            }
    return best


# %% wrong: less_than_the_cap
# Refuses a combination that needs exactly the cap.

from itertools import product


def choose_switches(parameters, layers, ranks, micro_batches, cap):
    whole = 4 * parameters
    shard = whole // ranks
    layer = whole // layers
    best = None
    for reshard, once, keep in product([True, False], repeat=3):
        if reshard:
            gathers = micro_batches + 1 if keep else 2 * micro_batches
        else:
            gathers = 1 if keep else micro_batches
        reduces = 1 if once else micro_batches
        received = (gathers + reduces) * (whole - shard)
        held = 3 * shard
        held += whole if once else shard
        if reshard and not keep:
            held += 4 * layer
        else:
            held += whole + 2 * layer
        if held < cap and (best is None or received < best["received"]):
            best = {
                "reshard_after_forward": reshard,
                "reduce_once": once,
                "keep_weights": keep,
                "received": received,
                "held": held,
            }
    return best
