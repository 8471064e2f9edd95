# %% wrong: the_given_loop
# Leaves the loop as it is: groups take turns in Python, so the devices should do so, too.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = list(prompts), [[] for _ in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = model.stage0(tokens[group].to(model.device0), cache)
            logits = model.stage1(hidden.to(model.device1), cache)
            tokens[group] = logits.argmax(-1, keepdim=True)
            found[group].append(tokens[group])
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: tokens_read_at_once
# Reads each new token on the CPU, so Python waits for it before it launches the other group.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = list(prompts), [[] for _ in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = model.stage0(tokens[group].to(model.device0), cache)
            logits = model.stage1(hidden.to(model.device1), cache)
            tokens[group] = logits.argmax(-1, keepdim=True).cpu()
            found[group].append(tokens[group])
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: tokens_printed
# Has the right order, and looks at each new token with .item(), to see whether the sequence has ended.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    waiting = None
    for turn in range(new * len(prompts) + 1):
        group = turn % len(prompts)
        hidden = waiting[1].to(model.device1) if waiting else None
        following = None
        if turn < new * len(prompts):
            following = group, model.stage0(tokens[group].to(model.device0), caches[group])
        if waiting:
            before = waiting[0]
            tokens[before] = model.stage1(hidden, caches[before]).argmax(-1, keepdim=True)
            if tokens[before][0].item() == -1:
                break
            found[before].append(tokens[before])
        waiting = following
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: group_after_group
# Decodes one group to its end before the next one begins.

def interleaved(model, prompts, new):
    found = []
    for prompt in prompts:
        cache, tokens, made = model.new_cache(), prompt, []
        for _ in range(new):
            hidden = model.stage0(tokens.to(model.device0), cache)
            tokens = model.stage1(hidden.to(model.device1), cache).argmax(-1, keepdim=True)
            made.append(tokens)
        found.append(torch.cat(made, dim=1))
    return found


# %% wrong: one_cache
# Has one cache for all groups.

def interleaved(model, prompts, new):
    cache = model.new_cache()
    tokens, found = list(prompts), [[] for _ in prompts]
    for _ in range(new):
        for group in range(len(prompts)):
            hidden = model.stage0(tokens[group].to(model.device0), cache)
            logits = model.stage1(hidden.to(model.device1), cache)
            tokens[group] = logits.argmax(-1, keepdim=True)
            found[group].append(tokens[group])
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: caches_multiplied
# Writes [cache] * n, which is n times the same cache.

def interleaved(model, prompts, new):
    caches = [model.new_cache()] * len(prompts)
    tokens, found = list(prompts), [[] for _ in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = model.stage0(tokens[group].to(model.device0), cache)
            logits = model.stage1(hidden.to(model.device1), cache)
            tokens[group] = logits.argmax(-1, keepdim=True)
            found[group].append(tokens[group])
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: two_groups_only
# Knows two groups.

def interleaved(model, prompts, new):
    caches = [model.new_cache(), model.new_cache()]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[], []]
    hidden = model.stage0(tokens[0], caches[0])
    for turn in range(2 * new):
        group, other = turn % 2, 1 - turn % 2
        hidden = hidden.to(model.device1)
        following = model.stage0(tokens[other].to(model.device0), caches[other]) if turn < 2 * new - 1 else None
        tokens[group] = model.stage1(hidden, caches[group]).argmax(-1, keepdim=True)
        found[group].append(tokens[group])
        hidden = following
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: groups_in_one_batch
# Joins the groups to one batch, which two groups of equal prompts allow.

def interleaved(model, prompts, new):
    cache, tokens, made = model.new_cache(), torch.cat(prompts), []
    for _ in range(new):
        hidden = model.stage0(tokens.to(model.device0), cache)
        tokens = model.stage1(hidden.to(model.device1), cache).argmax(-1, keepdim=True)
        made.append(tokens)
    return list(torch.cat(made, dim=1).split([len(prompt) for prompt in prompts]))


# %% wrong: stage_by_stage
# Launches stage 0 of all groups, and then stage 1 of all groups.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = list(prompts), [[] for _ in prompts]
    for _ in range(new):
        hidden = [model.stage0(t.to(model.device0), cache) for t, cache in zip(tokens, caches)]
        hidden = [h.to(model.device1) for h in hidden]
        tokens = [model.stage1(h, cache).argmax(-1, keepdim=True) for h, cache in zip(hidden, caches)]
        for group, each in zip(found, tokens):
            group.append(each)
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: token_copied_back_at_once
# Copies the new token to device0 right after stage 1, before the other group's stage 0 is launched.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = model.stage0(tokens[group], cache).to(model.device1)
            tokens[group] = model.stage1(hidden, cache).argmax(-1, keepdim=True).to(model.device0)
            found[group].append(tokens[group])
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: hidden_copied_too_late
# Has the stages in the right order, and copies a hidden state after the next stage 0 is launched.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    waiting = None
    for turn in range(new * len(prompts) + 1):
        group = turn % len(prompts)
        following = None
        if turn < new * len(prompts):
            following = group, model.stage0(tokens[group].to(model.device0), caches[group])
        if waiting:
            before, hidden = waiting
            tokens[before] = model.stage1(hidden.to(model.device1), caches[before]).argmax(-1, keepdim=True)
            found[before].append(tokens[before])
        waiting = following
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: waits_for_the_devices
# Synchronizes after each turn, to be sure that the copy has arrived.

def interleaved(model, prompts, new):
    gpu = torch.get_device_module(model.device0)
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    waiting = None
    for turn in range(new * len(prompts) + 1):
        group = turn % len(prompts)
        hidden = waiting[1].to(model.device1) if waiting else None
        following = None
        if turn < new * len(prompts):
            following = group, model.stage0(tokens[group].to(model.device0), caches[group])
        gpu.synchronize(model.device0)
        if waiting:
            before = waiting[0]
            tokens[before] = model.stage1(hidden, caches[before]).argmax(-1, keepdim=True)
            found[before].append(tokens[before])
        gpu.synchronize(model.device1)
        waiting = following
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: with_the_prompt
# Returns prompts and new tokens.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = list(prompts), [[prompt.to(model.device1)] for prompt in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = model.stage0(tokens[group].to(model.device0), cache)
            tokens[group] = model.stage1(hidden.to(model.device1), cache).argmax(-1, keepdim=True)
            found[group].append(tokens[group])
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: first_token_lost
# Takes the prompt's logits for preparation, and counts the tokens after the first one.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    waiting = None
    for turn in range((new + 1) * len(prompts) + 1):
        group = turn % len(prompts)
        hidden = waiting[1].to(model.device1) if waiting else None
        following = None
        if turn < (new + 1) * len(prompts):
            following = group, model.stage0(tokens[group].to(model.device0), caches[group])
        if waiting:
            before = waiting[0]
            tokens[before] = model.stage1(hidden, caches[before]).argmax(-1, keepdim=True)
            found[before].append(tokens[before])
        waiting = following
    return [torch.cat(each[1:], dim=1) for each in found]


# %% wrong: tensors_in_lists
# Returns the list of tokens of each group.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = list(prompts), [[] for _ in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = model.stage0(tokens[group].to(model.device0), cache)
            tokens[group] = model.stage1(hidden.to(model.device1), cache).argmax(-1, keepdim=True)
            found[group].append(tokens[group])
    return found


# %% wrong: everything_again
# Gives the stages the whole sequence at each step, with a new cache each time.

def interleaved(model, prompts, new):
    sequences = [prompt.to(model.device0) for prompt in prompts]
    waiting = None
    for turn in range(new * len(prompts) + 1):
        group = turn % len(prompts)
        if waiting:
            before, cache, hidden = waiting
            hidden = hidden.to(model.device1)
        following = None
        if turn < new * len(prompts):
            fresh = model.new_cache()
            following = group, fresh, model.stage0(sequences[group], fresh)
        if waiting:
            token = model.stage1(hidden, cache).argmax(-1, keepdim=True)
            sequences[before] = torch.cat([sequences[before], token.to(model.device0)], dim=1)
        waiting = following
    return [s[:, p.shape[1] :] for s, p in zip(sequences, prompts)]


# %% wrong: streams_without_events
# Has streams for the copies, and does not let the stages wait for them.

def interleaved(model, prompts, new):
    gpu = torch.get_device_module(model.device0)
    side = {device: gpu.Stream(device=device) for device in (model.device0, model.device1)}

    def moved(tensor, device):
        with gpu.stream(side[model.device0]), gpu.stream(side[model.device1]):
            return tensor.to(device, non_blocking=True)

    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    for _ in range(new):
        for group, cache in enumerate(caches):
            hidden = moved(model.stage0(tokens[group], cache), model.device1)
            newest = model.stage1(hidden, cache).argmax(-1, keepdim=True)
            found[group].append(newest)
            tokens[group] = moved(newest, model.device0)
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: first_two_groups_of_many
# Decodes groups in pairs, one pair after the other: with three groups the last one is alone.

def interleaved(model, prompts, new):
    if len(prompts) > 2:
        return interleaved(model, prompts[:2], new) + interleaved(model, prompts[2:], new)
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(model.device0) for prompt in prompts], [[] for _ in prompts]
    waiting = None
    for turn in range(new * len(prompts) + 1):
        group = turn % len(prompts)
        if waiting:
            before, hidden = waiting
            hidden = hidden.to(model.device1)
        if len(prompts) == 1 and waiting:
            tokens[before] = model.stage1(hidden, caches[before]).argmax(-1, keepdim=True)
            found[before].append(tokens[before])
        following = None
        if turn < new * len(prompts):
            following = group, model.stage0(tokens[group].to(model.device0), caches[group])
        if len(prompts) == 2 and waiting:
            tokens[before] = model.stage1(hidden, caches[before]).argmax(-1, keepdim=True)
            found[before].append(tokens[before])
        waiting = following
    return [torch.cat(each, dim=1) for each in found]


# %% wrong: on_the_notebooks_devices
# Uses the devices of the notebook in place of the model's.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens, found = [prompt.to(device0) for prompt in prompts], [[] for _ in prompts]
    waiting = None
    for turn in range(new * len(prompts) + 1):
        group = turn % len(prompts)
        hidden = waiting[1].to(device1) if waiting else None
        following = None
        if turn < new * len(prompts):
            following = group, model.stage0(tokens[group].to(device0), caches[group])
        if waiting:
            before = waiting[0]
            tokens[before] = model.stage1(hidden, caches[before]).argmax(-1, keepdim=True)
            found[before].append(tokens[before])
        waiting = following
    return [torch.cat(each, dim=1) for each in found]


# %% right: begin_and_finish
# Two functions begin and finish a group's step, and a loop calls them in turns.

def interleaved(model, prompts, new):
    caches = [model.new_cache() for _ in prompts]
    tokens = [prompt.to(model.device0) for prompt in prompts]
    found = [[] for _ in prompts]
    in_flight = []

    def begin(group):
        hidden = model.stage0(tokens[group].to(model.device0), caches[group])
        in_flight.append((group, hidden))

    def arrive():
        group, hidden = in_flight.pop(0)
        return group, hidden.to(model.device1)

    def finish(group, hidden):
        tokens[group] = model.stage1(hidden, caches[group]).argmax(dim=-1).unsqueeze(1)
        found[group].append(tokens[group])

    begin(0)
    turns = [group for _ in range(new) for group in range(len(prompts))]
    for group in turns[1:]:
        arrived = arrive()
        begin(group)
        finish(*arrived)
    finish(*arrive())
    return [torch.cat(each, dim=1) for each in found]


# %% right: generators
# A generator for each group stops after stage 0, after the copy and after stage 1.

def interleaved(model, prompts, new):
    def decoded(prompt, made):
        cache, tokens = model.new_cache(), prompt
        for _ in range(new):
            hidden = model.stage0(tokens.to(model.device0), cache)
            yield
            hidden = hidden.to(model.device1)
            yield
            tokens = model.stage1(hidden, cache).argmax(-1, keepdim=True)
            made.append(tokens)
            yield

    found = [[] for _ in prompts]
    groups = [decoded(prompt, made) for prompt, made in zip(prompts, found)]
    turns = groups * new
    next(turns[0])
    for before, after in zip(turns, turns[1:]):
        next(before)  # copy
        next(after)  # stage 0
        next(before)  # stage 1
    next(turns[-1])
    next(turns[-1])
    return [torch.cat(made, dim=1) for made in found]


# %% right: side_streams
# Copies on streams of their own, with events, so the order of the launches does not matter.

def interleaved(model, prompts, new):
    gpu = torch.get_device_module(model.device0)
    side = {device: gpu.Stream(device=device) for device in (model.device0, model.device1)}

    def copied(tensor, to):
        side[tensor.device].wait_stream(gpu.current_stream(tensor.device))
        with gpu.stream(side[model.device0]), gpu.stream(side[model.device1]):
            copy = tensor.to(to, non_blocking=True)
        return copy, side[to].record_event()

    def waited(copy, event):
        gpu.current_stream(copy.device).wait_event(event)
        return copy

    caches = [model.new_cache() for _ in prompts]
    arriving = [(prompt.to(model.device0), None) for prompt in prompts]
    found = [[] for _ in prompts]
    for step in range(new):
        for group, cache in enumerate(caches):
            tokens = waited(*arriving[group]) if step else arriving[group][0]
            hidden = waited(*copied(model.stage0(tokens, cache), model.device1))
            newest = model.stage1(hidden, cache).argmax(-1, keepdim=True)
            found[group].append(newest)
            arriving[group] = copied(newest, model.device0)
    return [torch.cat(each, dim=1) for each in found]


# %% right: a_queue_of_hidden_states
# Keeps a queue of hidden states that have been copied, and fills an output tensor for each group.

def interleaved(model, prompts, new):
    from collections import deque

    groups = len(prompts)
    caches = {group: model.new_cache() for group in range(groups)}
    newest = {group: prompt.to(model.device0) for group, prompt in enumerate(prompts)}
    made = [torch.empty(len(prompt), new, dtype=torch.long, device=model.device1) for prompt in prompts]
    queue = deque()
    for turn in range(groups * new):
        step, group = divmod(turn, groups)
        tokens = newest[group].to(model.device0)
        if queue:
            earlier_step, earlier, hidden = queue.popleft()
            queue.append((earlier_step, earlier, hidden.to(model.device1)))
        queue.append((step, group, model.stage0(tokens, caches[group])))
        if len(queue) == 2:
            finish(model, caches, newest, made, *queue.popleft())
    finish(model, caches, newest, made, *queue.popleft())
    return made


def finish(model, caches, newest, made, step, group, hidden):
    token = model.stage1(hidden.to(model.device1), caches[group]).argmax(-1)
    made[group][:, step] = token
    newest[group] = token[:, None]


# %% right: same_turn
# Copies a new token back to device0 at the end of each turn, when both stages are launched.

def interleaved(model, prompts, new):
    n = len(prompts)
    caches = [model.new_cache() for _ in range(n)]
    cur = [p.to(model.device0) for p in prompts]
    out = [[] for _ in range(n)]
    pending = None
    for t in range(n * new):
        g = t % n
        if pending is not None:
            pg, ph = pending
            ph = ph.to(model.device1)
        h = model.stage0(cur[g].to(model.device0), caches[g])
        if pending is not None:
            cur[pg] = model.stage1(ph, caches[pg]).argmax(-1, keepdim=True)
            out[pg].append(cur[pg])
            cur[pg] = cur[pg].to(model.device0)
        pending = (g, h)
    pg, ph = pending
    cur[pg] = model.stage1(ph.to(model.device1), caches[pg]).argmax(-1, keepdim=True)
    out[pg].append(cur[pg])
    return [torch.cat(o, 1) for o in out]


# %% wrong: prompt_every_step
# Gives the prompt to stage 0 at each step.

def interleaved(model, prompts, new):
    n = len(prompts)
    caches = [model.new_cache() for _ in range(n)]
    cur = [p.to(model.device0) for p in prompts]
    out = [[] for _ in range(n)]
    pending = None
    for t in range(n * new):
        g = t % n
        if pending is not None:
            pg, ph = pending
            ph = ph.to(model.device1)
        h = model.stage0(prompts[g].to(model.device0), caches[g])
        if pending is not None:
            cur[pg] = model.stage1(ph, caches[pg]).argmax(-1, keepdim=True)
            out[pg].append(cur[pg])
        pending = (g, h)
    pg, ph = pending
    cur[pg] = model.stage1(ph.to(model.device1), caches[pg]).argmax(-1, keepdim=True)
    out[pg].append(cur[pg])
    return [torch.cat(o, 1) for o in out]


# %% wrong: via_cpu
# Sends hidden states through the CPU.

def interleaved(model, prompts, new):
    n = len(prompts)
    caches = [model.new_cache() for _ in range(n)]
    cur = [p.to(model.device0) for p in prompts]
    out = [[] for _ in range(n)]
    pending = None
    for t in range(n * new):
        g = t % n
        if pending is not None:
            pg, ph = pending
            ph = ph.cpu().to(model.device1)
        h = model.stage0(cur[g].to(model.device0), caches[g])
        if pending is not None:
            cur[pg] = model.stage1(ph, caches[pg]).argmax(-1, keepdim=True)
            out[pg].append(cur[pg])
        pending = (g, h)
    pg, ph = pending
    cur[pg] = model.stage1(ph.to(model.device1), caches[pg]).argmax(-1, keepdim=True)
    out[pg].append(cur[pg])
    return [torch.cat(o, 1) for o in out]


# %% wrong: busy_work
# Computes stage 0 three times more, to keep the device busy.

def interleaved(model, prompts, new):
    n = len(prompts)
    caches = [model.new_cache() for _ in range(n)]
    cur = [p.to(model.device0) for p in prompts]
    out = [[] for _ in range(n)]
    pending = None
    for t in range(n * new):
        g = t % n
        if pending is not None:
            pg, ph = pending
            ph = ph.to(model.device1)
        for _ in range(3):
            model.stage0(cur[g].to(model.device0), dict(caches[g]))
        h = model.stage0(cur[g].to(model.device0), caches[g])
        if pending is not None:
            cur[pg] = model.stage1(ph, caches[pg]).argmax(-1, keepdim=True)
            out[pg].append(cur[pg])
        pending = (g, h)
    pg, ph = pending
    cur[pg] = model.stage1(ph.to(model.device1), caches[pg]).argmax(-1, keepdim=True)
    out[pg].append(cur[pg])
    return [torch.cat(o, 1) for o in out]


# %% wrong: round_after_round
# Overlaps the groups within a round, and finishes each round before the next one begins.

def interleaved(model, prompts, new):
    """Stage 1 of a group is launched after stage 0 of the next, but each round ends with all stages done."""
    caches = [model.new_cache() for _ in prompts]
    tokens = [p.to(model.device0) for p in prompts]
    found = [[] for _ in prompts]
    for _ in range(new):
        hidden = None
        for group in range(len(prompts) + 1):
            arrived = hidden.to(model.device1) if hidden is not None else None
            if group < len(prompts):
                hidden = model.stage0(tokens[group].to(model.device0), caches[group])
            if arrived is not None:
                token = model.stage1(arrived, caches[group - 1]).argmax(-1, keepdim=True)
                found[group - 1].append(token)
                tokens[group - 1] = token
    return [torch.cat(each, dim=1) for each in found]
