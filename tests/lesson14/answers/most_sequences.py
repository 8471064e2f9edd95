# %% wrong: keys_only
# Counts the keys and not the values.

def most_sequences(config, memory, gpus, length):
    layers, hidden = config.num_hidden_layers // gpus, config.hidden_size
    kv = config.num_key_value_heads * (hidden // config.num_attention_heads)
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    weights = 2 * (layers * layer + config.vocab_size * hidden)
    return (memory - weights) // (layers * 2 * kv * length)


# %% wrong: a_cache_for_each_query_head
# Takes the number of heads of queries.

def most_sequences(config, memory, gpus, length):
    layers, hidden = config.num_hidden_layers // gpus, config.hidden_size
    kv = config.num_key_value_heads * (hidden // config.num_attention_heads)
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    weights = 2 * (layers * layer + config.vocab_size * hidden)
    return (memory - weights) // (2 * layers * 2 * hidden * length)


# %% wrong: all_layers_on_each_gpu
# Counts the whole model on each GPU.

def most_sequences(config, memory, gpus, length):
    layers, hidden = config.num_hidden_layers, config.hidden_size
    kv = config.num_key_value_heads * (hidden // config.num_attention_heads)
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    weights = 2 * (layers * layer + config.vocab_size * hidden)
    return max((memory - weights) // (2 * layers * 2 * kv * length), 0)


# %% wrong: no_embedding
# Leaves out the embedding and the head.

def most_sequences(config, memory, gpus, length):
    layers, hidden = config.num_hidden_layers // gpus, config.hidden_size
    kv = config.num_key_value_heads * (hidden // config.num_attention_heads)
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    return (memory - 2 * layers * layer) // (2 * layers * 2 * kv * length)


# %% wrong: four_bytes
# Counts four bytes a number.

def most_sequences(config, memory, gpus, length):
    layers, hidden = config.num_hidden_layers // gpus, config.hidden_size
    kv = config.num_key_value_heads * (hidden // config.num_attention_heads)
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    weights = 4 * (layers * layer + config.vocab_size * hidden)
    return (memory - weights) // (4 * layers * 2 * kv * length)


# %% wrong: right_for_two_gpus
# Halves the layers, whatever the number of GPUs.

def most_sequences(config, memory, gpus, length):
    layers, hidden = config.num_hidden_layers // 2, config.hidden_size
    kv = config.num_key_value_heads * (hidden // config.num_attention_heads)
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    weights = 2 * (layers * layer + config.vocab_size * hidden)
    return (memory - weights) // (2 * layers * 2 * kv * length)


# %% right: by_shapes
# Lists the shapes of all matrices, and tries one more sequence at a time.

def most_sequences(config, memory, gpus, length):
    hidden, inner = config.hidden_size, config.intermediate_size
    kv = hidden // config.num_attention_heads * config.num_key_value_heads
    shapes = [(hidden, hidden), (hidden, kv), (hidden, kv), (hidden, hidden), *[(hidden, inner)] * 3]
    layers = config.num_hidden_layers // gpus
    used = 2 * config.vocab_size * hidden + 2 * layers * sum(a * b for a, b in shapes)
    count = 0
    while used + 2 * 2 * kv * layers * length <= memory:
        used += 2 * 2 * kv * layers * length
        count += 1
    return count
