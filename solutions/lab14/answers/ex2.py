# %% wrong: keys_only
# Counts one tensor for each block: keys, or values, but not both.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: cache_of_all_blocks
# Returns the bytes of the whole model's cache.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    one = 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens
    return config["num_hidden_layers"] * one


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    layers = config["num_hidden_layers"]
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new) // layers
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = layers, []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: one_sequence
# Forgets that each sequence has its own cache.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: all_attention_heads
# Counts keys and values for every attention head, as if heads did not share them.

def cache_bytes(config, sequences, tokens):
    return 2 * config["hidden_size"] * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: four_bytes_a_number
# Counts float32, whatever the model's dtype.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * 4 * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    block = parameters["block"] * 4 + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * 4
    free[-1] -= parameters["head"] * 4
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: numbers_for_bytes
# Returns the count of numbers.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = size * (parameters["block"] + cache_bytes(config, sequences, prompt + new))
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: head_of_the_kv_heads
# Divides the hidden size by the number of KV heads, which takes all heads into account again.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_key_value_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: weights_only
# Places the weights and does not count the cache.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // (parameters["block"] * size)))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: spread_evenly
# Cuts by the number of blocks, as if embedding and head weighed nothing.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    layers, gpus = config["num_hidden_layers"], len(memory)
    total = layers * (parameters["block"] * size + cache_bytes(config, sequences, prompt + new))
    if total + (parameters["embedding"] + parameters["head"]) * size > sum(memory):
        raise ValueError("does not fit")
    return [layers // gpus + (i < layers % gpus) for i in range(gpus)]


# %% wrong: cache_of_the_prompt
# Counts the cache of the prompt, which is there at first, and not that of the new tokens.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: a_cache_for_each_gpu
# Counts the cache of one block on each GPU, however many blocks it has.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    free = [room - cache_bytes(config, sequences, prompt + new) for room in memory]
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // (parameters["block"] * size)))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: head_forgotten
# Counts the embedding on the first GPU, and forgets the head on the last.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: embedding_forgotten
# Counts the head on the last GPU, and forgets the embedding on the first.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: memory_of_the_first_gpu
# Takes all GPUs to have as much memory as the first.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    left, counts = config["num_hidden_layers"], []
    for gpu in range(len(memory)):
        room = memory[0]
        if gpu == 0:
            room -= parameters["embedding"] * size
        if gpu == len(memory) - 1:
            room -= parameters["head"] * size
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left:
        raise ValueError("does not fit")
    return counts


# %% wrong: at_least_one_block
# Gives each GPU one block at least.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room // block, 1)))
        left -= counts[-1]
    if left:
        raise ValueError("does not fit")
    return counts


# %% wrong: rest_on_the_last
# Puts the blocks that are left on the last GPU, whether they fit or not.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free[:-1]:
        counts.append(min(left, room // block))
        left -= counts[-1]
    return [*counts, left]


# %% wrong: checks_the_sum
# Raises ValueError if the sum of the bytes is more than all memory, and does not look at each GPU.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    layers = config["num_hidden_layers"]
    if layers * block + (parameters["embedding"] + parameters["head"]) * size > sum(memory):
        raise ValueError("does not fit")
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    counts = []
    for room in free:
        counts.append(min(layers - sum(counts), max(room, 0) // block))
    return counts


# %% wrong: none_if_it_does_not_fit
# Returns None where nothing fits.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    return None if left or min(free) < 0 else counts


# %% wrong: indices_of_blocks
# Returns the blocks' numbers for each GPU.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    first, found = 0, []
    for room in free:
        last = min(config["num_hidden_layers"], first + max(room, 0) // block)
        found.append(list(range(first, last)))
        first = last
    if first < config["num_hidden_layers"] or min(free) < 0:
        raise ValueError("does not fit")
    return found


# %% wrong: memory_changed
# Subtracts embedding and head from the list that it was given.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    memory[0] -= parameters["embedding"] * size
    memory[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in memory:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(memory) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: room_for_one_block_must_stay
# Leaves a block only where more than enough is free, and refuses memory that is just enough.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    counts = [0] * len(memory)
    for _ in range(config["num_hidden_layers"]):
        for gpu, room in enumerate(memory):
            used = counts[gpu] * block
            used += parameters["embedding"] * size * (gpu == 0) + parameters["head"] * size * (gpu == len(memory) - 1)
            if used + block < room:
                counts[gpu] += 1
                break
        else:
            raise ValueError("does not fit")
    return counts


# %% wrong: negative_room
# Divides a room that is negative where the embedding does not fit, which gives fewer than 0 blocks.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, room // block))
        left -= counts[-1]
    if left:
        raise ValueError("does not fit")
    return counts


# %% wrong: embedding_that_does_not_fit
# Gives a GPU without room no block, and does not notice that its embedding or head does not fit.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left:
        raise ValueError("does not fit")
    return counts


# %% wrong: sixteen_numbers_a_head
# Writes the head size of the models that check uses, 16 numbers, into the formula.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * 16
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% wrong: two_dtypes_only
# Knows two dtypes only, and takes every other one for float32.

def cache_bytes(config, sequences, tokens):
    size = 2 if config["torch_dtype"] == "bfloat16" else 4
    numbers = config["num_key_value_heads"] * config["hidden_size"] // config["num_attention_heads"]
    return 2 * numbers * size * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = 2 if config["torch_dtype"] == "bfloat16" else 4
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left, counts = config["num_hidden_layers"], []
    for room in free:
        counts.append(min(left, max(room, 0) // block))
        left -= counts[-1]
    if left or min(free) < 0:
        raise ValueError("does not fit")
    return counts


# %% right: block_by_block
# Puts one block after the other on the first GPU that still has room.

def cache_bytes(config, sequences, tokens):
    per_token = 0
    for _ in ("key", "value"):
        per_token += config["num_key_value_heads"] * config["hidden_size"] // config["num_attention_heads"]
    return per_token * tokens * sequences * torch.finfo(getattr(torch, config["torch_dtype"])).bits // 8


def place(config, parameters, memory, sequences, prompt, new):
    itemsize = torch.finfo(getattr(torch, config["torch_dtype"])).bits // 8
    used = [0] * len(memory)
    used[0] += parameters["embedding"] * itemsize
    used[-1] += parameters["head"] * itemsize
    if any(u > m for u, m in zip(used, memory)):
        raise ValueError("embedding or head")
    block = parameters["block"] * itemsize + cache_bytes(config, sequences, prompt + new)
    counts, gpu = [0] * len(memory), 0
    for _ in range(config["num_hidden_layers"]):
        while gpu < len(memory) and used[gpu] + block > memory[gpu]:
            gpu += 1
        if gpu == len(memory):
            raise ValueError("blocks are left over")
        used[gpu] += block
        counts[gpu] += 1
    return counts


# %% right: from_the_last
# Fills the GPUs from the last one.

def cache_bytes(config, sequences, tokens):
    size = {"float32": 4, "bfloat16": 2, "float16": 2}[config["torch_dtype"]]
    head = config["hidden_size"] / config["num_attention_heads"]
    return 2 * size * head * config["num_key_value_heads"] * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = {"float32": 4, "bfloat16": 2, "float16": 2}[config["torch_dtype"]]
    one = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    counts, left = [], config["num_hidden_layers"]
    for gpu in reversed(range(len(memory))):
        room = memory[gpu]
        room -= parameters["head"] * size if gpu == len(memory) - 1 else 0
        room -= parameters["embedding"] * size if gpu == 0 else 0
        if room < 0:
            raise ValueError(f"no room on GPU {gpu}")
        count = int(min(left, room // one))
        counts.insert(0, count)
        left -= count
    if left > 0:
        raise ValueError(f"{left} blocks are left")
    return counts


# %% right: evened_out
# Gives the next block to the GPU that has the most bytes left.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * config["hidden_size"] // config["num_attention_heads"]
    return sequences * tokens * 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    free = [*memory]
    for gpu, part in ((0, "embedding"), (-1, "head")):
        free[gpu] -= size * parameters[part]
    counts = [0 for _ in free]
    one = size * parameters["block"] + cache_bytes(config, sequences, prompt + new)
    for _ in range(config["num_hidden_layers"]):
        gpu = free.index(max(free))
        free[gpu] -= one
        counts[gpu] += 1
    if min(free) < 0:
        raise ValueError("does not fit")
    return tuple(counts)


# %% right: taken_away_again
# Computes how many blocks fit on each GPU, and takes those away that are too many.

def cache_bytes(config, sequences, tokens):
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    block = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    fits = [room // block for room in free]
    if min(free) < 0 or sum(fits) < config["num_hidden_layers"]:
        raise ValueError("does not fit")
    extra = sum(fits) - config["num_hidden_layers"]
    for gpu in range(len(fits)):
        taken = min(extra, fits[gpu])
        fits[gpu] -= taken
        extra -= taken
    return fits


# %% right: brute
# Tries all placements where there are few GPUs.

def cache_bytes(cfg, n_seq, n_tok):
    d = cfg["hidden_size"] // cfg["num_attention_heads"]
    bytes_per = getattr(torch, cfg["torch_dtype"]).itemsize
    return n_seq * n_tok * cfg["num_key_value_heads"] * d * 2 * bytes_per


def place(config, parameters, memory, sequences, prompt, new):
    b = getattr(torch, config["torch_dtype"]).itemsize
    per_block = b * parameters["block"] + cache_bytes(config, sequences, prompt + new)
    import itertools
    free = list(memory)
    free[0] -= b * parameters['embedding']
    free[-1] -= b * parameters['head']
    if min(free) < 0:
        raise ValueError('x')
    if len(memory) <= 4:
        for counts in itertools.product(range(config['num_hidden_layers'] + 1), repeat=len(memory)):
            if sum(counts) == config['num_hidden_layers'] and all(c * per_block <= f for c, f in zip(counts, free)):
                return counts
        raise ValueError('none')
    result = []
    remaining = config["num_hidden_layers"]
    for i in range(len(memory)):
        avail = memory[i]
        if i == 0:
            avail -= b * parameters["embedding"]
        if i == len(memory) - 1:
            avail -= b * parameters["head"]
        if avail < 0:
            raise ValueError("GPU %d is too small" % i)
        n = min(remaining, avail // per_block)
        result.append(n)
        remaining -= n
    if remaining > 0:
        raise ValueError("too big")
    return result


# %% wrong: head_elif
# Subtracts the embedding or the head, and forgets that one GPU can hold both.

def cache_bytes(cfg, n_seq, n_tok):
    d = cfg["hidden_size"] // cfg["num_attention_heads"]
    bytes_per = getattr(torch, cfg["torch_dtype"]).itemsize
    return n_seq * n_tok * cfg["num_key_value_heads"] * d * 2 * bytes_per


def place(config, parameters, memory, sequences, prompt, new):
    b = getattr(torch, config["torch_dtype"]).itemsize
    per_block = b * parameters["block"] + cache_bytes(config, sequences, prompt + new)
    result = []
    remaining = config["num_hidden_layers"]
    for i in range(len(memory)):
        avail = memory[i]
        if i == 0:
            avail -= b * parameters["embedding"]
        elif i == len(memory) - 1:
            avail -= b * parameters["head"]
        if avail < 0:
            raise ValueError("GPU %d is too small" % i)
        n = min(remaining, avail // per_block)
        result.append(n)
        remaining -= n
    if remaining > 0:
        raise ValueError("too big")
    return result


# %% wrong: reserve
# Keeps a tenth of the memory free, though the memory given is for weights and cache.

def cache_bytes(cfg, n_seq, n_tok):
    d = cfg["hidden_size"] // cfg["num_attention_heads"]
    bytes_per = getattr(torch, cfg["torch_dtype"]).itemsize
    return n_seq * n_tok * cfg["num_key_value_heads"] * d * 2 * bytes_per


def place(config, parameters, memory, sequences, prompt, new):
    b = getattr(torch, config["torch_dtype"]).itemsize
    per_block = b * parameters["block"] + cache_bytes(config, sequences, prompt + new)
    result = []
    remaining = config["num_hidden_layers"]
    for i in range(len(memory)):
        avail = int(0.9 * memory[i])
        if i == 0:
            avail -= b * parameters["embedding"]
        if i == len(memory) - 1:
            avail -= b * parameters["head"]
        if avail < 0:
            raise ValueError("GPU %d is too small" % i)
        n = min(remaining, avail // per_block)
        result.append(n)
        remaining -= n
    if remaining > 0:
        raise ValueError("too big")
    return result


# %% wrong: round_up
# Rounds up how many blocks fit on a GPU.

def cache_bytes(cfg, n_seq, n_tok):
    d = cfg["hidden_size"] // cfg["num_attention_heads"]
    bytes_per = getattr(torch, cfg["torch_dtype"]).itemsize
    return n_seq * n_tok * cfg["num_key_value_heads"] * d * 2 * bytes_per


def place(config, parameters, memory, sequences, prompt, new):
    b = getattr(torch, config["torch_dtype"]).itemsize
    per_block = b * parameters["block"] + cache_bytes(config, sequences, prompt + new)
    result = []
    remaining = config["num_hidden_layers"]
    for i in range(len(memory)):
        avail = memory[i]
        if i == 0:
            avail -= b * parameters["embedding"]
        if i == len(memory) - 1:
            avail -= b * parameters["head"]
        if avail < 0:
            raise ValueError("GPU %d is too small" % i)
        n = min(remaining, -(-avail // per_block))
        result.append(n)
        remaining -= n
    if remaining > 0:
        raise ValueError("too big")
    return result


# %% wrong: stops_early
# Returns no numbers for the GPUs after the last one that is used.

def cache_bytes(cfg, n_seq, n_tok):
    d = cfg["hidden_size"] // cfg["num_attention_heads"]
    bytes_per = getattr(torch, cfg["torch_dtype"]).itemsize
    return n_seq * n_tok * cfg["num_key_value_heads"] * d * 2 * bytes_per


def place(config, parameters, memory, sequences, prompt, new):
    b = getattr(torch, config["torch_dtype"]).itemsize
    per_block = b * parameters["block"] + cache_bytes(config, sequences, prompt + new)
    result = []
    remaining = config["num_hidden_layers"]
    for i in range(len(memory)):
        avail = memory[i]
        if i == 0:
            avail -= b * parameters["embedding"]
        if i == len(memory) - 1:
            avail -= b * parameters["head"]
        if avail < 0:
            raise ValueError("GPU %d is too small" % i)
        n = min(remaining, avail // per_block)
        result.append(n)
        remaining -= n
        if not remaining:
            break
    if remaining > 0:
        raise ValueError("too big")
    return result


# %% wrong: two_bytes_for_weights
# Takes two bytes for each weight, whatever the dtype.

def cache_bytes(config, sequences, tokens):
    head = config["hidden_size"] // config["num_attention_heads"]
    size = getattr(torch, config["torch_dtype"]).itemsize
    return 2 * sequences * tokens * config["num_key_value_heads"] * head * size


def place(config, parameters, memory, sequences, prompt, new):
    size = 2
    each = parameters["block"] * size + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left = config["num_hidden_layers"]
    counts = []
    for room in free:
        if room < 0:
            raise ValueError("the embedding or the head does not fit")
        here = min(left, room // each)
        counts.append(here)
        left -= here
    if left:
        raise ValueError("does not fit")
    return counts


# %% wrong: parameters_for_bytes
# Takes the number of parameters for their bytes.

def cache_bytes(config, sequences, tokens):
    head = config["hidden_size"] // config["num_attention_heads"]
    size = getattr(torch, config["torch_dtype"]).itemsize
    return 2 * sequences * tokens * config["num_key_value_heads"] * head * size


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    each = parameters["block"] + cache_bytes(config, sequences, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"]
    free[-1] -= parameters["head"]
    left = config["num_hidden_layers"]
    counts = []
    for room in free:
        if room < 0:
            raise ValueError("the embedding or the head does not fit")
        here = min(left, room // each)
        counts.append(here)
        left -= here
    if left:
        raise ValueError("does not fit")
    return counts


# %% wrong: cache_of_one_sequence
# Places the blocks with the cache of one sequence.

def cache_bytes(config, sequences, tokens):
    head = config["hidden_size"] // config["num_attention_heads"]
    size = getattr(torch, config["torch_dtype"]).itemsize
    return 2 * sequences * tokens * config["num_key_value_heads"] * head * size


def place(config, parameters, memory, sequences, prompt, new):
    size = getattr(torch, config["torch_dtype"]).itemsize
    each = parameters["block"] * size + cache_bytes(config, 1, prompt + new)
    free = list(memory)
    free[0] -= parameters["embedding"] * size
    free[-1] -= parameters["head"] * size
    left = config["num_hidden_layers"]
    counts = []
    for room in free:
        if room < 0:
            raise ValueError("the embedding or the head does not fit")
        here = min(left, room // each)
        counts.append(here)
        left -= here
    if left:
        raise ValueError("does not fit")
    return counts
