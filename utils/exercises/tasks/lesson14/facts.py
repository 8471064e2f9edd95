"""The facts about lesson 14's tasks: a cache beside its layer, room for sequences, two groups in turns."""

from types import SimpleNamespace

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson14", "Generate on a split model")

# --- a cache for one layer ------------------------------------------------------------------------------------------

cache = lab.exercise(
    "layer_cache",
    points=0,
    title="A cache for one layer",
    hints=[
        "torch.zeros takes device= and dtype=. The number of heads is weight.shape[0] // size.",
        "Keep the number of stored tokens beside the two tensors: `nonlocal length` lets update change it.",
        "keys[:, :, start:end] = k writes into the tensor. keys[:, :, :end] is a view of it.",
    ],
)


def run_cache(lab, device, dtype, sequences, heads, size, longest, lengths):
    import torch

    from utils.exercises.facts.probes import array, kind_of

    device, dtype = torch.device(device), getattr(torch, dtype)
    gpu = torch.get_device_module(device)
    weight = torch.zeros(heads * size, 5, device=device, dtype=dtype)
    other = lab.layer_cache(weight, sequences, longest, size)
    update = lab.layer_cache(weight, sequences, longest, size)
    if not callable(update):
        return {"wrong": f"layer_cache returned {kind_of(update)}. Return the function update."}
    numbers = torch.Generator().manual_seed(3)
    given, found, grown = [], [], []
    for length in lengths:
        k, v = (torch.randn(sequences, heads, length, size, generator=numbers).to(device, dtype) for _ in range(2))
        other(v, k)  # a second layer of the model
        before = gpu.memory_allocated(device)
        result = update(k, v)
        grown.append(gpu.memory_allocated(device) - before)
        if not (isinstance(result, tuple | list) and len(result) == 2):
            return {"wrong": f"update returned {kind_of(result)}. Return keys and values."}
        given.append((array(k.float()), array(v.float())))
        found.append([(array(each.float()), str(each.device), str(each.dtype)) for each in result])
        result = None
    return {"given": given, "found": found, "grown": grown}


def compare_cache(student, device, dtype, sequences, heads, size, longest, lengths):
    import numpy as np

    run = student.run(run_cache, device, dtype, sequences, heads, size, longest, lengths)
    with case(f"With {sequences} sequences and a {dtype} weight on {device}, updates of {lengths} tokens"):
        need("wrong" not in run, run.get("wrong", ""))
        for number, found in enumerate(run["found"]):
            for which, (values, where, kind) in enumerate(found):
                name = ("keys", "values")[which]
                need(where == device, f"the {name} are on {where}, but the layer's weight is on {device}.")
                need(kind == f"torch.{dtype}", f"the {name} are {kind}, but the layer's weight is torch.{dtype}.")
                right = np.concatenate([pair[which] for pair in run["given"][: number + 1]], axis=2)
                need(
                    values.shape == right.shape,
                    f"after update {number + 1} the {name} have shape {values.shape}, but there are "
                    f"{right.shape[2]} tokens so far: {right.shape}.",
                )
                need(
                    np.array_equal(values, right),
                    f"after update {number + 1} the {name} differ from those that were given, in order.",
                )
        return run


@cache.fact("all keys and values so far come back, on the device and in the dtype of the weight")
def _(student):
    compare_cache(student, student.devices[1], "float32", 2, 3, 4, 9, [4, 1, 1])


@cache.fact("the same holds on another device, in bfloat16, with other sizes")
def _(student):
    compare_cache(student, student.devices[0], "bfloat16", 3, 2, 8, 7, [5, 1, 1])


@cache.fact("an update allocates no memory")
def _(student):
    run = compare_cache(student, student.devices[0], "float32", 16, 4, 32, 40, [8, 1, 1])
    need(
        not any(run["grown"]),
        f"the three updates allocated {', '.join(str(size) for size in run['grown'])} bytes. Allocate once, for "
        "`longest` tokens, write into the tensors, and return views. torch.cat copies all that is there.",
    )


# --- how many sequences fit -----------------------------------------------------------------------------------------

room = lab.exercise(
    "most_sequences",
    points=0,
    title="How many sequences fit",
    hints=[
        "The first GPU holds the embedding, the last one the head. Both have vocab_size x hidden_size weights.",
        "A layer: q_proj and o_proj have hidden_size x hidden_size weights, k_proj and v_proj hidden_size x (key heads "
        "x head size), the MLP three times hidden_size x intermediate_size.",
        "For each token and layer the cache has (key heads x head size) keys and as many values. Head size is "
        "hidden_size // num_attention_heads.",
    ],
)
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 8,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 500,
}
LARGE = {
    "hidden_size": 6144,
    "intermediate_size": 20480,
    "num_hidden_layers": 48,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "vocab_size": 100_000,
}


def parts(config, gpus, length):
    """Bytes on the fullest GPU: all that a learner may leave out or count otherwise, by name."""
    c = SimpleNamespace(**config)
    layers = c.num_hidden_layers // gpus
    size = c.hidden_size // c.num_attention_heads
    kv = c.num_key_value_heads * size
    attention = 2 * c.hidden_size**2 + 2 * c.hidden_size * kv
    return {
        "layers": layers,
        "attention": 2 * attention,
        "mlp": 6 * c.hidden_size * c.intermediate_size,
        "table": 2 * c.vocab_size * c.hidden_size,
        "cache": 4 * layers * kv * length,
        "groups": c.num_attention_heads // c.num_key_value_heads,
    }


def sequences_by(p, memory, *, table=1, layers=1, cache=1.0, bytes_=1, mlp=1.0):
    weights = bytes_ * (p["layers"] * layers * (p["attention"] + mlp * p["mlp"]) + table * p["table"])
    return int((memory - weights) // (p["cache"] * cache * bytes_))


def why_another(found, config, memory, gpus, length):
    """What was left out or counted otherwise, if one such mistake gives the number that was found."""
    p = parts(config, gpus, length)
    mistakes = {
        "Does that leave out the embedding, or the head?": {"table": 0},
        "The embedding and the head are on different GPUs.": {"table": 2},
        "Each GPU holds its share of the layers only.": {"layers": gpus},
        "A cache has keys and values.": {"cache": 0.5},
        "The cache has num_key_value_heads heads, which several heads of queries share.": {"cache": p["groups"]},
        "The cache on a GPU belongs to the layers on that GPU.": {"cache": gpus},
        "A number in bfloat16 has 2 bytes.": {"bytes_": 2},
        "The MLP has three matrices: gate_proj, up_proj and down_proj.": {"mlp": 2 / 3},
    }
    for words, mistake in mistakes.items():
        if found == sequences_by(p, memory, **mistake):
            return words
    together = gpus * (memory - p["layers"] * (p["attention"] + p["mlp"])) - 2 * p["table"]
    return "Each GPU has to fit: the fullest one decides." if found == together // (gpus * p["cache"]) else ""


def run_room(lab, config, memory, gpus, length):
    from types import SimpleNamespace

    from utils.exercises.facts.probes import kind_of

    found = lab.most_sequences(SimpleNamespace(**config), memory, gpus, length)
    whole = isinstance(found, int | float) and not isinstance(found, bool) and found == found // 1
    return int(found) if whole else f"{kind_of(found)} ({found})" if isinstance(found, float) else kind_of(found)


def compare_room(student, config, memory, gpus, length):
    found = student.run(run_room, config, memory, gpus, length)
    right = sequences_by(parts(config, gpus, length), memory)
    sizes = f"hidden_size={config['hidden_size']}, {config['num_hidden_layers']} layers"
    with case(f"With {sizes}, {gpus} GPUs of {memory:,} bytes and {length} tokens"):
        need(not isinstance(found, str), f"it returned {found}. Return a whole number.")
        need(
            found == right,
            f"{right} sequences fit, but you returned {found}. {why_another(found, config, memory, gpus, length)}",
        )


@room.fact("it is the largest number of sequences whose cache fits beside the weights on every GPU")
def _(student):
    compare_room(student, SMALL, 2_000_000, 2, 100)


@room.fact("the same holds for a larger model on more GPUs")
def _(student):
    compare_room(student, LARGE, 80_000_000_000, 4, 4096)


# --- groups in turns ------------------------------------------------------------------------------------------------

turns = lab.exercise(
    "in_turns",
    points=0,
    title="Two groups in turns",
    hints=[
        "A loop over steps, and in it one over groups: tokens[group] = step(tokens[group], group).",
        "On one stream, the copy at the start of a group's step waits for all that is queued on both devices, the "
        "other group's layers included. A group with streams of its own waits for nothing of the other.",
        "GPU = torch.get_device_module(device0), as in lesson 09. A step launches on both devices, so both of the "
        "group's streams are current during it: `with GPU.stream(stream0), GPU.stream(stream1):`.",
        "The first tokens come from the current streams, GPU.current_stream(device). So before the loop, "
        "stream.wait_stream(current), and after it, current.wait_stream(stream).",
    ],
)


def run_turns(lab, device0, device1, groups, count):
    import torch

    from utils.exercises.facts.probes import kind_of

    device0, device1 = torch.device(device0), torch.device(device1)
    first = [torch.zeros(2, 1, device=device1) for _ in range(groups)]
    tensors, calls = list(first), []

    def step(tokens, group):
        number = next((i for i, each in enumerate(tensors) if each is tokens), None)
        calls.append((group, number))
        tensors.append((tokens.to(device0) + 1).to(device1))
        return tensors[-1]

    found = lab.in_turns(step, first, count, device0, device1)
    if not (isinstance(found, list | tuple) and all(isinstance(each, list | tuple) for each in found)):
        of = f" of {kind_of(found[0])}" if isinstance(found, list | tuple) and found else ""
        return {
            "wrong": f"in_turns returned {kind_of(found)}{of}. Return a list for each group, of its tokens in order."
        }
    where = [[next((i for i, t in enumerate(tensors) if t is each), None) for each in one] for one in found]
    return {"calls": calls, "found": where}


def compare_turns(student, device0, device1, groups, count):
    run = student.run(run_turns, device0, device1, groups, count)
    with case(f"With {groups} groups and count={count}"):
        need("wrong" not in run, run.get("wrong", ""))
        made = [[] for _ in range(groups)]
        for number, (group, given) in enumerate(run["calls"]):
            need(isinstance(group, int) and 0 <= group < groups, f"step was called for group {group!r}.")
            newest = made[group][-1] if made[group] else group
            need(
                given == newest,
                f"call {number + 1} of step was not given the newest tokens of group {group}. Each step continues "
                "with the tokens that the group's last step returned.",
            )
            made[group].append(groups + number)
        need(
            [len(each) for each in made] == [count] * groups,
            f"step was called {', '.join(str(len(each)) for each in made)} times for the groups. Each has {count} "
            "steps.",
        )
        need(
            [list(each) for each in run["found"]] == made,
            "the returned lists differ from the tokens that step returned. Return for each group its tokens, in "
            "order, without the first ones.",
        )


@turns.fact("each group continues with its own tokens, and all of them are returned in order")
def _(student):
    compare_turns(student, *student.devices, groups=2, count=4)


@turns.fact("the same holds for three groups, with the devices swapped")
def _(student):
    compare_turns(student, *student.devices[::-1], groups=3, count=2)


def watch_turns(lab, device0, device1, count):
    """The share of the less busy device's work that runs while the other works too, and reads that came too early."""
    import warnings

    import torch

    from utils.exercises.facts.probes import build
    from utils.observe import intervals
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not (is_simulated(device0) and is_simulated(device1)):
        return {"watched": False}
    # In simgpu's cost model a sum of very many numbers for very few results is slow; this computer does it quickly.
    slow = [["Linear", 8, 60_000], ["Linear", 60_000, 8]]
    part0, part1 = build(slow), build(slow)
    part0.to(device0)
    part1.to(device1)
    device0, device1 = torch.device(device0), torch.device(device1)

    def step(tokens, group):
        return part1(part0(tokens.to(device0)).to(device1))

    with torch.no_grad(), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        first = [step(torch.randn(16, 8), group) for group in range(2)]
        with record(device0, device1) as timeline:
            found = lab.in_turns(step, first, count, device0, device1)
            for each in found:
                torch.cat(list(each)).sum()
    both = intervals.length(intervals.common(timeline.busy_times(device0), timeline.busy_times(device1)))
    least = min(timeline.busy(device0), timeline.busy(device1))
    races = sum("has not finished writing" in str(each) for each in warned)
    return {"watched": True, "share": both / least if least else 0.0, "races": races}


@turns.fact("both devices work at the same time (checked only on simulated devices)")
def _(student):
    run = student.run(watch_turns, *student.devices, 6)
    need(
        not run["watched"] or run["share"] > 0.75,
        "on the simulated clock, both devices worked at the same time for "
        f"{run.get('share', 0):.0%} of the less busy device's working time. A copy between devices waits for what is "
        "queued on the current streams of both. Give each group a stream of its own on each device, and launch one "
        "step of each group before the next step of the first.",
    )


@turns.fact("no stream reads what another has not finished writing (checked only on simulated devices)")
def _(student):
    run = student.run(watch_turns, *student.devices, 3)
    need(
        not run.get("races"),
        f"{run.get('races')} times, a stream read what another had not finished writing. Before the loop, your streams "
        "wait for the current ones; after it, the current ones wait for yours: stream.wait_stream(other).",
    )
