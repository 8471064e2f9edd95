"""Lesson 14: working versions of its tasks."""

import torch


def layer_cache(weight, sequences, longest, size):
    heads = weight.shape[0] // size
    keys = torch.zeros(sequences, heads, longest, size, device=weight.device, dtype=weight.dtype)
    values = torch.zeros_like(keys)
    length = 0

    def update(k, v):
        nonlocal length
        start, length = length, length + k.shape[2]
        keys[:, :, start:length] = k
        values[:, :, start:length] = v
        return keys[:, :, :length], values[:, :, :length]

    return update


def most_sequences(config, memory, gpus, length):
    layers = config.num_hidden_layers // gpus
    hidden = config.hidden_size
    size = hidden // config.num_attention_heads
    kv = config.num_key_value_heads * size  # outputs of k_proj, and of v_proj
    layer = 2 * hidden * hidden + 2 * hidden * kv + 3 * hidden * config.intermediate_size
    weights = 2 * (layers * layer + config.vocab_size * hidden)
    cache = 2 * layers * 2 * kv * length  # of one sequence: keys and values, 2 bytes each
    return (memory - weights) // cache


def in_turns(step, groups, count, device0, device1):
    gpu = torch.get_device_module(device0)  # torch.cuda, or torch.simgpu
    streams = [(gpu.Stream(device0), gpu.Stream(device1)) for _ in groups]
    for pair in streams:
        for stream in pair:
            stream.wait_stream(gpu.current_stream(stream.device))  # what the group begins with is computed there
    tokens, made = list(groups), [[] for _ in groups]
    for _ in range(count):
        for group, (stream0, stream1) in enumerate(streams):
            with gpu.stream(stream0), gpu.stream(stream1):
                tokens[group] = step(tokens[group], group)
                made[group].append(tokens[group])
    for pair in streams:
        for stream in pair:
            gpu.current_stream(stream.device).wait_stream(stream)
    return made
