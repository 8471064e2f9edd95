# %% wrong: one_group_after_the_other
# Finishes a group before the next one begins.

def in_turns(step, groups, count, device0, device1):
    made = []
    for group, tokens in enumerate(groups):
        made.append([])
        for _ in range(count):
            tokens = step(tokens, group)
            made[-1].append(tokens)
    return made


# %% wrong: in_turns_on_one_stream
# Takes turns, but all is queued on the current streams.

def in_turns(step, groups, count, device0, device1):
    tokens, made = list(groups), [[] for _ in groups]
    for _ in range(count):
        for group in range(len(groups)):
            tokens[group] = step(tokens[group], group)
            made[group].append(tokens[group])
    return made


# %% wrong: streams_that_wait_for_nothing
# Gives each group its streams, and nothing waits for anything.

def in_turns(step, groups, count, device0, device1):
    gpu = torch.get_device_module(device0)
    streams = [(gpu.Stream(device0), gpu.Stream(device1)) for _ in groups]
    tokens, made = list(groups), [[] for _ in groups]
    for _ in range(count):
        for group, (stream0, stream1) in enumerate(streams):
            with gpu.stream(stream0), gpu.stream(stream1):
                tokens[group] = step(tokens[group], group)
                made[group].append(tokens[group])
    return made


# %% wrong: the_first_tokens_each_time
# Never feeds a token back.

def in_turns(step, groups, count, device0, device1):
    made = [[] for _ in groups]
    for _ in range(count):
        for group, tokens in enumerate(groups):
            made[group].append(step(tokens, group))
    return made


# %% wrong: two_groups_only
# Is written for two groups.

def in_turns(step, groups, count, device0, device1):
    a, b = groups[:2]
    made = [[], []]
    for _ in range(count):
        a = step(a, 0)
        b = step(b, 1)
        made[0].append(a)
        made[1].append(b)
    return made


# %% wrong: the_last_tokens_only
# Returns the newest tokens and loses the others.

def in_turns(step, groups, count, device0, device1):
    tokens = list(groups)
    for _ in range(count):
        for group in range(len(groups)):
            tokens[group] = step(tokens[group], group)
    return tokens


# %% right: by_events
# Waits by events, and keeps the streams in lists for each device.

def in_turns(step, groups, count, device0, device1):
    gpu = torch.get_device_module(device0)
    made = [[tokens] for tokens in groups]
    streams = {device: [gpu.Stream(device) for _ in groups] for device in (device0, device1)}
    for device, many in streams.items():
        ready = gpu.current_stream(device).record_event()
        for stream in many:
            stream.wait_event(ready)
    for _ in range(count):
        for group, tokens in enumerate(made):
            with gpu.stream(streams[device0][group]), gpu.stream(streams[device1][group]):
                tokens.append(step(tokens[-1], group))
    for device, many in streams.items():
        for stream in many:
            gpu.current_stream(device).wait_event(stream.record_event())
    return [tokens[1:] for tokens in made]
