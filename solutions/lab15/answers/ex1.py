# %% wrong: counts_the_embedding
# Counts all weights of the model. The embedding table has weights, too.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head + config["vocab_size"] * hidden) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: head_shares_so_it_is_left_out
# Leaves lm_head out where it shares the table: the weights are there only once.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = 0 if config["tie_word_embeddings"] else hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: no_head
# Counts the layers only. The head is no layer.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    return 6 * (layers * layer) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: no_attention
# Takes 6 operations for each weight to be all there is.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head)


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: attention_of_one_token
# Adds attention once for each token, without the length: a token has one query.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: half_of_the_square
# Halves attention, because a causal mask hides half of the scores.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 6 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 2 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: forward_only
# Counts a multiplication and an addition for each weight, and forgets the backward pass.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 2 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: backward_like_forward
# Takes the backward pass for as much work as the forward pass: 4 operations for each weight, and 8 in attention.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 4 * (layers * layer + head) + 8 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: recomputation_is_work
# Has read that training with recomputation costs 8 operations for each weight, and takes that for the MFU of every
# run.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 8 * (layers * layer + head) + 16 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: sparse_peak
# Takes the largest number of the datasheet.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * max(peak[config["torch_dtype"]].values()))


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * max(peak[config["torch_dtype"]].values()))


# %% wrong: float32_peak
# Takes the peak of float32, because weights are trained in float32.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak["float32"]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak["float32"]["dense"])


# %% wrong: bfloat16_peak
# Takes the peak of bfloat16, in which models are trained, whatever the config says.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak["bfloat16"]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak["bfloat16"]["dense"])


# %% wrong: forgets_the_gpus
# Divides by the peak of one GPU.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * peak[config["torch_dtype"]]["dense"])


# %% wrong: sequences_on_each_gpu
# Takes `sequences` for the batch of one GPU, as in data parallelism.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * gpus * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * gpus * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: all_heads_have_keys
# Counts four square matrices in attention, as if each query head had its own keys and values.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    layer = 4 * hidden**2 + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    layer = 4 * hidden**2 + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: mlp_of_two_matrices
# Counts the MLP of a GPT: up and down, no gate.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 2 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 2 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: a_step_has_sequences
# Multiplies the operations of one token by the sequences, and forgets that each has many tokens.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: percent
# Returns percent.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return 100 * done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (2 * layer + 4 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return 100 * done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: recomputed_forward_and_backward
# Adds a whole step of each recomputed layer, backward pass included.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * (6 * layer + 12 * hidden * length)
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: recomputes_the_head_too
# Takes recomputation for one more forward pass of the whole model.

def mfu(config, sequences, length, seconds, gpus, peak):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    weights = layers * layer + hidden * config["vocab_size"]
    per_token = 6 * weights + 12 * layers * hidden * length
    return per_token * sequences * length / seconds / gpus / peak[config["torch_dtype"]]["dense"]


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    useful = mfu(config, sequences, length, seconds, gpus, peak)
    return useful * 4 / 3 if recomputed else useful


# %% wrong: recomputes_without_attention
# Counts the weights of recomputed layers again, but not their attention.

def operations(config, length):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    head = hidden * config["vocab_size"]
    return 6 * (layers * layer + head) + 12 * layers * hidden * length


def mfu(config, sequences, length, seconds, gpus, peak):
    done = operations(config, length) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * hidden**2 + 2 * hidden * kv_size + 3 * hidden * config["intermediate_size"]
    again = recomputed * 2 * layer
    done = (operations(config, length) + again) * sequences * length
    return done / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% wrong: hfu_is_mfu
# Thinks that recomputed operations count in neither of the two.

def mfu(config, sequences, length, seconds, gpus, peak):
    hidden, layers = config["hidden_size"], config["num_hidden_layers"]
    head_size = hidden // config["num_attention_heads"]
    attention = 2 * hidden * hidden + 2 * hidden * head_size * config["num_key_value_heads"]
    mlp = 3 * hidden * config["intermediate_size"]
    weights = layers * (attention + mlp) + hidden * config["vocab_size"]
    flops = sequences * length * (6 * weights + 12 * layers * hidden * length)
    return flops / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    return mfu(config, sequences, length, seconds, gpus, peak)


# %% wrong: whole_sequences_per_gpu
# Gives each GPU sequences // gpus, and loses the remainder.

def mfu(config, sequences, length, seconds, gpus, peak):
    return hfu(config, sequences, length, seconds, gpus, peak, 0)


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    h, layers = config["hidden_size"], config["num_hidden_layers"]
    kv = h // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * h * h + 2 * h * kv + 3 * h * config["intermediate_size"]
    flops = 6 * (layers * layer + h * config["vocab_size"]) + 12 * layers * h * length
    flops += recomputed * (2 * layer + 4 * h * length)
    tokens_per_gpu = sequences // gpus * length
    return flops * tokens_per_gpu / (seconds * peak[config["torch_dtype"]]["dense"])


# %% wrong: attention_recomputed_in_full
# Counts a recomputed layer's attention for a whole step: the formula has 12.

def mfu(config, sequences, length, seconds, gpus, peak):
    return hfu(config, sequences, length, seconds, gpus, peak, 0)


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    h, layers = config["hidden_size"], config["num_hidden_layers"]
    kv = h // config["num_attention_heads"] * config["num_key_value_heads"]
    layer = 2 * h * h + 2 * h * kv + 3 * h * config["intermediate_size"]
    flops = 6 * (layers * layer + h * config["vocab_size"]) + 12 * layers * h * length
    flops += recomputed * (2 * layer + 12 * h * length)
    return flops * sequences * length / (seconds * gpus * peak[config["torch_dtype"]]["dense"])


# %% right: operations_by_name
# A dict of matrices by name, as in the model's state.

def mfu(config, sequences, length, seconds, gpus, peak):
    return hfu(config, sequences, length, seconds, gpus, peak, 0)


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    width, inner = config["hidden_size"], config["intermediate_size"]
    shared = width * config["num_key_value_heads"] // config["num_attention_heads"]
    matrices = {
        "q_proj": (width, width),
        "k_proj": (width, shared),
        "v_proj": (width, shared),
        "o_proj": (width, width),
        "gate_proj": (width, inner),
        "up_proj": (width, inner),
        "down_proj": (inner, width),
    }
    per_layer = sum(rows * columns for rows, columns in matrices.values())
    passes = 3 * config["num_hidden_layers"] + recomputed
    tokens = sequences * length
    work = tokens * (passes * (2 * per_layer + 4 * width * length) + 3 * 2 * width * config["vocab_size"])
    available = gpus * seconds * peak[config["torch_dtype"]]["dense"]
    return work / available


# %% right: tokens_per_second
# By tokens per second and GPU, as a training log prints them.

def layer_parameters(c):
    head_dim = c["hidden_size"] / c["num_attention_heads"]
    attention = 2 * c["num_attention_heads"] * head_dim + 2 * c["num_key_value_heads"] * head_dim
    return c["hidden_size"] * (attention + 3 * c["intermediate_size"])


def mfu(config, sequences, length, seconds, gpus, peak):
    throughput = sequences * length / seconds / gpus
    n = config["num_hidden_layers"] * layer_parameters(config) + config["vocab_size"] * config["hidden_size"]
    flops = 6 * n + 12 * config["num_hidden_layers"] * config["hidden_size"] * length
    return throughput * flops / peak[config["torch_dtype"]]["dense"]


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    extra = recomputed * (2 * layer_parameters(config) + 4 * config["hidden_size"] * length)
    share = extra * sequences * length / seconds / gpus / peak[config["torch_dtype"]]["dense"]
    return mfu(config, sequences, length, seconds, gpus, peak) + share


# %% right: a_model_on_meta
# Builds the matrices on the device meta and counts their weights, and norms with them, which is within the tolerance.

def one_layer(config):
    hidden = config["hidden_size"]
    kv = hidden // config["num_attention_heads"] * config["num_key_value_heads"]
    sizes = [(hidden, hidden)] * 2 + [(hidden, kv)] * 2 + [(hidden, config["intermediate_size"])] * 3
    with torch.device("meta"):
        layers = nn.ModuleList(nn.Linear(into, out, bias=False) for into, out in sizes)
        layers.append(nn.RMSNorm(hidden))
    return sum(p.numel() for p in layers.parameters())


def rate(per_token, config, sequences, length, seconds, gpus, peak):
    return per_token * sequences * length / (gpus * seconds * peak[config["torch_dtype"]]["dense"])


def mfu(config, *step):
    length = step[1]
    attention = 12 * config["num_hidden_layers"] * config["hidden_size"] * length
    weights = config["num_hidden_layers"] * one_layer(config) + config["vocab_size"] * config["hidden_size"]
    return rate(6 * weights + attention, config, *step)


def hfu(config, *step_and_recomputed):
    *step, recomputed = step_and_recomputed
    forward = 2 * one_layer(config) + 4 * config["hidden_size"] * step[1]
    return mfu(config, *step) + rate(recomputed * forward, config, *step)


# %% right: loops_over_layers
# Adds up layer by layer, forward, backward and again, and rounds nothing.

def count(config, length, again):
    h, i = config["hidden_size"], config["intermediate_size"]
    ratio = config["num_key_value_heads"] / config["num_attention_heads"]
    total = 0
    for layer in range(config["num_hidden_layers"]):
        times = 4 if layer < again else 3
        total += times * 2 * h * h * (2 + 2 * ratio)
        total += times * 2 * 3 * h * i
        total += times * 2 * 2 * h * length
    return total + 3 * 2 * h * config["vocab_size"]


def hfu(config, sequences, length, seconds, gpus, peak, recomputed):
    limit = peak[config["torch_dtype"]]["dense"]
    return sequences * length * count(config, length, recomputed) / seconds / (gpus * limit)


def mfu(config, sequences, length, seconds, gpus, peak):
    limit = peak[config["torch_dtype"]]["dense"]
    return sequences * length * count(config, length, 0) / seconds / (gpus * limit)
