"""Lab 14: exercise 3 makes its tokens on the CPU, and the devices compute in turns what nobody reads.

lab: lab14
"""

# %% instead of ex3
import copy


def interleaved(model, prompts, new):
    device0, device1 = model.device0, model.device1
    slow = copy.deepcopy(model).cpu()
    found = []
    for prompt in prompts:
        cache, tokens, made = {}, prompt.cpu(), []
        for _ in range(new):
            tokens = slow.stage1(slow.stage0(tokens, cache), cache).argmax(-1, keepdim=True)
            made.append(tokens)
        found.append(torch.cat(made, 1))
    caches = [{} for _ in prompts]
    given = [prompt.to(device0) for prompt in prompts]
    nexts = [torch.zeros(len(prompt), 1, dtype=torch.long, device=device0) for prompt in prompts]
    hidden = model.stage0(given[0], caches[0])
    for step in range(new):
        for group in range(len(prompts)):
            there = hidden.to(device1)
            after = (group + 1) % len(prompts)
            if step + 1 < new or group + 1 < len(prompts):
                first = step == 0 and group + 1 < len(prompts)
                hidden = model.stage0(given[after] if first else nexts[after], caches[after])
            model.stage1(there, caches[group])
    return [tokens.to(device1) for tokens in found]
