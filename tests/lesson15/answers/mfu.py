# %% wrong: no_attention
# Counts the weights' operations only.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    return 6 * weights * tokens_per_second / peak


# %% wrong: forward_only
# Counts the forward pass, as for generation.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    per_token = 2 * weights + 4 * layers * hidden * length
    return per_token * tokens_per_second / peak


# %% wrong: causal_half
# Halves attention, because a causal mask hides half of the pairs.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    return (6 * weights + 6 * layers * hidden * length) * tokens_per_second / peak


# %% wrong: with_recomputation
# Counts a second forward pass, as for full recomputation.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    return (8 * weights + 12 * layers * hidden * length) * tokens_per_second / peak


# %% wrong: percent
# Returns a percentage.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    return 100 * (6 * weights + 12 * layers * hidden * length) * tokens_per_second / peak


# %% wrong: prints
# Prints the result instead of returning it.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    print((6 * weights + 12 * layers * hidden * length) * tokens_per_second / peak)


# %% right: in_steps
# Adds attention layer by layer.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    flops = 6 * weights
    for _ in range(layers):
        flops += 12 * hidden * length
    return flops * tokens_per_second / peak


# %% right: seconds_at_the_peak
# The time that a token needs at the peak, over the time that it takes.

def mfu(weights, layers, hidden, length, tokens_per_second, peak):
    at_peak = (6 * weights + 12 * layers * hidden * length) / peak
    return at_peak / (1 / tokens_per_second)
