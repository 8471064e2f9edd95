"""Lab 14's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. Logits and tokens are compared
with those of a model without a cache on the CPU, and bytes are counted by hand.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.kits.decoding import TwoStages
from utils.models.gpt import GPT, turned

lab = Lab("lab14", "Generate on a split model")


def plural(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


# --- ex1: a KV cache on a split model -------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=4,
    title="A KV cache on a split model",
    hints=[
        "Start from Block.forward. Which of its lines mix different tokens? Only these lines need the earlier keys and "
        "values.",
        "How many tokens came before this call? That number is the position of the call's first token, and it selects "
        "the rows of the rotary tables.",
        "A new token attends to all earlier tokens and to itself. With one query, does is_causal=True allow that? Try "
        "scaled_dot_product_attention with one query and three keys.",
        "Keys and values have the shape (sequences, heads, tokens, numbers per head). Which of these dimensions grows?",
    ],
    likely={
        "must match except in dimension 0": "torch.cat joins along dimension 0, the sequences. Tokens are dimension 2.",
        "at non-singleton dimension 0": "Do new keys extend dimension 2, the tokens, or dimension 0, the sequences?",
        "at non-singleton dimension 3": "Do the rotary tables and the mask have a row for each position of this call?",
        "at non-singleton dimension 2": "Do the rotary tables have a row for each token of this call, and no more?",
        "inference tensor": "Use torch.no_grad(), not inference_mode(), which simulated tensors do not support.",
        "expected scalar type": "Does your cache have the dtype of the model?",
        "to have the same dtype": "Does your cache have the dtype of the model?",
        "Expected all tensors to be on the same device": "Are each block's input, cache and tables on its device?",
    },
)

SIZES = (50, 32, 4, 4)  # vocabulary, hidden size, heads, blocks
TIMES = 3.0  # weights so large that attention is far from even: a wrong position shows
LONG = (2, 72, 16)  # sequences, tokens of the prompt, tokens after it: recomputing them costs far more than a step
SPARE = 12  # tokens of `longest` that a request does not use
PIECES = 8  # kernels with FLOPs of a block in one call: a right answer launches five


def texts_of(*shapes, seed=0) -> list[np.ndarray]:
    numbers = np.random.default_rng(seed)
    return [numbers.integers(0, SIZES[0], shape) for shape in shapes]


@cache
def whole_model(seed: int, double: bool, heads: int = SIZES[2]) -> GPT:
    """The model of the probes, on the CPU."""
    torch.manual_seed(seed)
    model = GPT(*SIZES[:2], heads, SIZES[3], longest=128)
    for p in model.parameters():
        p.data.copy_(p.data * TIMES)
    return model.double() if double else model


def run_decoders(lab, places, sizes, texts, prompts, longest, seed, double, comes_from):
    """The logits of each call: the requests take turns, and each has a Decoder of its own."""
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.decoding import SplitGPT
    from utils.models.gpt import GPT

    torch.manual_seed(seed)
    whole = GPT(*sizes, longest=128)
    for p in whole.parameters():
        p.data.copy_(p.data * 3.0)
    if double:
        whole.double()
    model = SplitGPT(whole, [torch.device(place) for place in places])
    found = [[] for _ in texts]
    calls = max([len(text[0]) - prompt for text, prompt in zip(texts, prompts, strict=True)]) + 1
    with torch.no_grad():
        decoders = [lab.Decoder(model, longest) for _ in texts]
        for call in range(calls):
            for decoder, text, prompt, logits in zip(decoders, texts, prompts, found, strict=True):
                first = 0 if call == 0 else prompt + call - 1
                given = text[:, first : prompt + call]
                if not len(given[0]):
                    continue
                output = decoder(torch.from_numpy(given.copy()).to(comes_from))
                if not isinstance(output, torch.Tensor):
                    return {"wrong": f"the Decoder returned {kind_of(output)}. Return one tensor of logits."}
                logits.append({"device": str(output.device), "logits": array(output)})
    return {"found": found}


def alike(found: np.ndarray, right: np.ndarray) -> bool:
    tolerance = 1e-9 if right.dtype == np.float64 else 1e-3
    return found.shape == right.shape and bool(np.abs(found - right).max() <= tolerance * np.abs(right).max())


def logits_with(model: GPT, text: np.ndarray, positions: torch.Tensor, sees: torch.Tensor) -> np.ndarray:
    """The logits of all tokens where a token has `positions[i]` and attends to the tokens with `sees[i]`."""
    cos, sin = model.cos[positions], model.sin[positions]
    x = model.embed(torch.from_numpy(text))
    for block in cast("Iterable[Any]", model.blocks):
        q, k, v = block.qkv(block.norm1(x)).unflatten(-1, (3, block.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=sees)
        x = x + block.out(attended.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    return model.head(model.norm(x)).detach().numpy()


def mistaken_logits(model: GPT, text: np.ndarray, prompt: int) -> Iterator[tuple[str, np.ndarray]]:
    """(the mistake and the fix, the logits of all tokens) for each known mistake."""
    length = text.shape[1]
    steps = torch.arange(length)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    later = (steps >= prompt)[:, None]
    itself = torch.eye(length, dtype=torch.bool)
    within = causal | ((steps < prompt)[:, None] & (steps < prompt)[None])
    for words, positions, sees in (
        (
            "Each new token gets position 0. Its position is the number of tokens before it",
            steps.where(steps < prompt, 0),
            causal,
        ),
        (
            "All new tokens get the same position. Count the tokens of each call",
            steps.clamp(max=prompt),
            causal,
        ),
        (
            "The positions of new tokens are too large by 1. The first token of a sequence has position 0",
            steps + (steps >= prompt),
            causal,
        ),
        (
            "The positions of new tokens are too small by 1. The token after a prompt of n tokens has position n",
            steps - (steps >= prompt).long(),
            causal,
        ),
        (
            "A new token attends to the first token only. With one query, is_causal=True hides all later keys",
            steps,
            causal & (~later | (steps == 0)[None]),
        ),
        (
            "A new token does not attend to itself. Add its key and value to the cache before attention",
            steps,
            causal & (~later | ~itself),
        ),
        (
            "A new token attends to itself only. Attend to the cached keys and values, too",
            steps,
            causal & (~later | itself),
        ),
        (
            "A new token attends to the prompt and itself, but not to earlier new tokens. Keep their keys and values",
            steps,
            causal & (~later | itself | (steps < prompt)[None]),
        ),
        (
            "Tokens of the prompt attend to later tokens. Attention over the prompt is causal",
            steps,
            within,
        ),
    ):
        yield words, logits_with(model, text, positions, sees)


def why_logits(found: np.ndarray, model: GPT, text: np.ndarray, prompt: int, place: int, more: str) -> str:
    """The likeliest mistake in the logits of the token at `place`."""
    if place == prompt - 1 and place:
        with torch.no_grad():
            first = model(torch.from_numpy(text))[:, 0].numpy()
        if alike(found, first):
            return "They are the logits of the first token. Return those of the last token."
    for words, logits in mistaken_logits(model, text, prompt):
        if alike(found, logits[:, place]):
            return f"{words}."
    if more:
        return more
    if place >= prompt:
        return (
            "Does each block have its own cache, with the keys and values of all earlier tokens, in order? Are the "
            "positions of a call the same in each block?"
        )
    return "Does each Decoder start with an empty cache, one for each block? The rest is as in Block.forward."


def compare_decoders(student, places, shapes, *, longest=None, seed=1, double=False, comes_from="cpu", heads=SIZES[2]):
    """`shapes`: (sequences, tokens of the prompt, tokens after it) of each request. They take turns."""
    texts = texts_of(*((rows, prompt + new) for rows, prompt, new in shapes), seed=seed)
    prompts = [prompt for _, prompt, _ in shapes]
    longest = longest or max(text.shape[1] for text in texts) + 3
    words = " and ".join(
        f"a prompt of {plural(prompt, 'token')} for {plural(rows, 'sequence')}" for rows, prompt, _ in shapes
    )
    more = (", the model in float64" if double else "") + ("" if comes_from == "cpu" else f", tokens on {comes_from}")
    more += "" if heads == SIZES[2] else f", {heads} heads"
    sizes = [*SIZES[:2], heads, SIZES[3]]
    turns = " that take turns, each with its own Decoder" if len(shapes) > 1 else ""
    with case(f"With {words}{turns}{more} and blocks on {', '.join(places)}"):
        run = student.run(run_decoders, list(places), sizes, texts, prompts, longest, seed, double, comes_from)
        need("wrong" not in run, run.get("wrong", ""))
        model = whole_model(seed, double, heads)
        for found, text, prompt in zip(run["found"], texts, prompts, strict=True):
            with torch.no_grad():
                right = model(torch.from_numpy(text)).numpy()
            for call, one in enumerate(found):
                more = "Does each Decoder have its own cache?" if call and len(texts) > 1 else ""
                if double and call:
                    more = "Does the cache have the model's dtype, float64?"
                if prompt + call == longest and call:
                    more = "Does the cache have room for `longest` tokens?"
                compare_call(one, right, model, text, prompt, call, places[-1], more)


def compare_call(one, right, model, text, prompt, call, last, more=""):
    """`more`: the likeliest mistake where none is recognized."""
    place, shape = prompt - 1 + call, one["logits"].shape
    after = "the prompt" if call == 0 else f"new token {call}"
    wanted = (len(text), SIZES[0])
    need(
        shape == wanted,
        f"the logits after {after} have the shape {shape}, but they should have (sequences, vocabulary) = {wanted}. "
        f"Return only those of the last token.",
    )
    need(one["device"] == last, f"the logits are on {one['device']}, but they should be on {last}.")
    if not alike(one["logits"], right[:, place]):
        why = why_logits(one["logits"], model, text, prompt, place, more)
        need(False, f"the logits after {after} differ from those of the model without a cache. {why}")


def split(student, blocks0=2) -> list[str]:
    """The device of each block: the first ones on the first device."""
    device0, device1 = student.devices
    return [device0] * blocks0 + [device1] * (SIZES[3] - blocks0)


@ex1.fact("after the prompt, the logits match those of the model without a cache, on the last device")
def _(student):
    compare_decoders(student, split(student), [(2, 7, 0)])


@ex1.fact("after each new token, the logits match, too: positions continue, and each token attends to all earlier ones")
def _(student):
    compare_decoders(student, split(student), [(2, 7, 5)])


@ex1.fact("two requests can take turns, each with its own Decoder")
def _(student):
    compare_decoders(student, split(student, 3), [(3, 5, 4), (3, 9, 4)], seed=2)
    compare_decoders(student, split(student, 1), [(1, 6, 3)], seed=3)


def watch_decoder(lab, places, sizes, text, prompt, longest):
    """What a Decoder holds on each device after `text`, and what the prompt and the last token cost."""
    import contextlib

    import torch

    from utils.exercises.facts.probes import array
    from utils.kits.decoding import SplitGPT
    from utils.models.gpt import GPT
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    torch.manual_seed(1)
    whole = GPT(*sizes, longest=128)
    for p in whole.parameters():
        p.data.copy_(p.data * 3.0)
    model = SplitGPT(whole, [torch.device(place) for place in places])
    used = [place for number, place in enumerate(places) if place not in places[:number]]
    simulated = all([is_simulated(place) for place in used])
    gpu = torch.get_device_module(used[0])
    with torch.no_grad():
        model(torch.from_numpy(text.copy()))  # takes what a device needs at its first product
        before = [gpu.memory_allocated(place) for place in used]
        with record(*used) if simulated else contextlib.nullcontext() as made:
            decoder = lab.Decoder(model, longest)
        with record(*used) if simulated else contextlib.nullcontext() as first:
            logits = decoder(torch.from_numpy(text[:, :prompt].copy()))
        with record(*used) if simulated else contextlib.nullcontext() as later:
            for place in range(prompt, len(text[0]) - 1):
                logits = decoder(torch.from_numpy(text[:, place : place + 1].copy()))
        with record(*used) if simulated else contextlib.nullcontext() as last:
            logits = decoder(torch.from_numpy(text[:, -1:].copy()))
        told = array(logits)
        logits = None
        held = [gpu.memory_allocated(place) - earlier for place, earlier in zip(used, before, strict=True)]
    return {
        "watched": simulated,
        "devices": used,
        "held": held,
        "logits": told,
        "pieces": len([event for event in first.events if event.flops]) if first is not None else 0,
        "flops": sum([event.flops for event in last.events]) if last is not None else 0,
        "moved": [[*way, size] for way, size in last.moved().items()] if last is not None else [],
        "to_host": sum(
            [
                sum([size for way, size in part.moved().items() if way[1] == "cpu"])
                for part in (made, first, later)
                if part is not None
            ]
        ),
    }


def ask_watched(student, places, shape):
    rows, prompt, new = shape
    [text] = texts_of((rows, prompt + new), seed=rows)
    run = student.run(watch_decoder, list(places), list(SIZES), text, prompt, text.shape[1] + SPARE)
    with torch.no_grad():
        right = whole_model(1, False)(torch.from_numpy(text))[:, -1].numpy()
    need(alike(run["logits"], right), "the logits of the last token differ from those of the model without a cache.")
    return run


def watching(places, shape):
    rows, prompt, new = shape
    return case(
        f"With {plural(rows, 'sequence')}, a prompt of {prompt} and {new} new tokens, and blocks on {', '.join(places)}"
    )


def need_one_token(student, places, shape, run=None):
    """A step computes one token for each sequence, and the prompt is one pass. `run`: what `ask_watched` has told."""
    rows, prompt, new = shape
    vocab, hidden, _, blocks = SIZES
    with watching(places, shape):
        run = run or ask_watched(student, places, shape)
        if not run["watched"]:
            return
        linear = 2 * rows * (blocks * 12 * hidden**2 + hidden * vocab)
        needed = linear + blocks * 4 * rows * hidden * (prompt + new + SPARE)
        need(
            run["flops"] <= 1.1 * needed,
            f"the last step performs {run['flops'] / needed:.1f} times the required operations. Compute queries, keys "
            "and values of the new token only. The cache has those of the earlier tokens.",
        )
        need(
            run["flops"] >= 0.9 * linear,
            "the last step performs fewer operations on the devices than one token needs. Compute on the blocks' "
            "devices.",
        )
        need(
            run["pieces"] <= PIECES * blocks,
            f"the first call launches {run['pieces']} products and attentions for {blocks} blocks. Compute the "
            "prompt's tokens together in one pass, not one by one.",
        )


@ex1.fact("each step computes the new token alone, and the prompt takes one pass (checked on simulated devices)")
def _(student):
    need_one_token(student, split(student), LONG)


def need_cache_in_place(student, places, shape, run=None):
    """Each device holds the keys and values of its own blocks, and little else."""
    rows, prompt, new = shape
    with watching(places, shape):
        run = run or ask_watched(student, places, shape)
        one = 2 * rows * SIZES[1] * 4  # bytes of a token in one block: keys and values in float32
        for device, held in zip(run["devices"], run["held"], strict=True):
            blocks = places.count(device)
            least, most = blocks * one * (prompt + new), blocks * one * (prompt + new + SPARE)
            need(held >= 0, f"{device} holds fewer bytes than before the first call. Do not change or move the model.")
            need(
                held >= 0.95 * least,
                f"{device} holds {held:,} bytes beyond the weights, but the keys and values of its "
                f"{plural(blocks, 'block')} take {least:,}. Keep each block's cache on the block's device.",
            )
            need(
                held <= 1.3 * most + 20_000,
                f"{device} holds {held:,} bytes beyond the weights, but the keys and values of its "
                f"{plural(blocks, 'block')} take {most:,} even for `longest` tokens. Store only these, and one copy.",
            )


@ex1.fact("each device holds the keys and values of its own blocks")
def _(student):
    need_cache_in_place(student, split(student, 3), LONG)


def need_few_copies(student, places, shape, run=None):
    """In a step, only the hidden state of the new token crosses."""
    rows, *_ = shape
    vocab, hidden_size, _, blocks = SIZES
    weights = 4 * (blocks * 12 * hidden_size**2 + 2 * hidden_size * vocab)
    with watching(places, shape):
        run = run or ask_watched(student, places, shape)
        crossings = sum(one != other for one, other in pairwise(places))
        hidden = crossings * rows * SIZES[1] * 4
        to_host = sum(size for _, other, size in run["moved"] if other == "cpu")
        moved = sum(size for *_, size in run["moved"])
        need(
            not to_host,
            f"the last step copies {to_host:,} bytes to the CPU. Copy straight from GPU to GPU, and read no value.",
        )
        need(
            run["to_host"] <= weights / 4,
            f"before the last step, {run['to_host']:,} bytes go to the CPU, and the weights take {weights:,}. Compute "
            "on the blocks' devices.",
        )
        need(
            moved <= 1.5 * hidden + 512,
            f"the last step copies {moved:,} bytes between devices, but the hidden states that cross have only "
            f"{hidden:,} bytes. Leave keys, values and tables on their device.",
        )


@ex1.fact("in a step, only the hidden state of the new token crosses (checked on simulated devices)")
def _(student):
    need_few_copies(student, split(student), LONG)


# --- ex2: a placement that fits -------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="A placement that fits",
    hints=[
        "For one token, a block caches one key and one value for each KV head. How many numbers does each have?",
        "Compute the bytes of one block first: its weights, and its cache for the longest request. Then compute how "
        "many blocks fit on a GPU.",
        "Which GPU also holds the embedding, and which one also holds the head? With one GPU, it is the same one.",
        "Put as many blocks as fit on the first GPU, then on the next. How can your code detect that blocks are left "
        "over?",
    ],
)

TINY = {
    "num_hidden_layers": 12,
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_key_value_heads": 6,
    "torch_dtype": "float32",
}
GROUPED = {
    "num_hidden_layers": 10,
    "hidden_size": 192,
    "num_attention_heads": 12,
    "num_key_value_heads": 4,
    "torch_dtype": "bfloat16",
}
PARAMETERS = {"embedding": 40_000, "block": 10_000, "head": 50_000}


def ask_cache_bytes(lab, config, sequences, tokens):
    from utils.exercises.facts.probes import kind_of

    found = lab.cache_bytes(config, sequences, tokens)
    if isinstance(found, bool) or not (hasattr(found, "__index__") or isinstance(found, float)):
        return kind_of(found)
    return float(found)


def block_cache(config, sequences, tokens) -> int:
    """The bytes of one block's KV cache."""
    numbers = config["num_key_value_heads"] * (config["hidden_size"] // config["num_attention_heads"])
    return 2 * numbers * getattr(torch, config["torch_dtype"]).itemsize * sequences * tokens


def why_bytes(share: float, config, sequences: int) -> str:
    """The likeliest mistake, by how many times the right number was found."""
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    dtype, layers = config["torch_dtype"], config["num_hidden_layers"]
    size = getattr(torch, dtype).itemsize
    for mistaken, words in (
        (
            1 / 2,
            f"That is half the right number. Do you count keys and values, and {size} bytes for a number in {dtype}?",
        ),
        (layers, "That is the cache of all blocks. Return the bytes of one block."),
        (
            heads / groups,
            f"That is {heads // groups} times the right number. Do you count {groups} KV heads, of hidden_size / "
            f"num_attention_heads = {config['hidden_size'] // heads} numbers each?",
        ),
        (heads / groups / 2, "Count the KV heads, and count keys and values."),
        (4 / size, f"A number in {dtype} has {size} bytes, not 4."),
        (2 / size, f"A number in {dtype} has {size} bytes, not 2."),
        (heads / groups * 4 / size, "Count the KV heads, and the bytes of the model's dtype."),
        (1 / sequences, "Each sequence has its own cache. Multiply by the number of sequences."),
        (1 / size, "Return bytes, not numbers."),
        (heads, "A head has hidden_size / num_attention_heads numbers per token."),
        (1 / groups, "Each KV head has its own keys and values."),
    ):
        if mistaken != 1 and abs(share - mistaken) < 1e-6 * mistaken:
            return words
    return "Count keys and values: each KV head has hidden_size / num_attention_heads numbers per token and sequence."


def compare_bytes(student, config, sequences, tokens):
    heads, groups = config["num_attention_heads"], config["num_key_value_heads"]
    words = f"{heads} attention heads, {groups} KV heads, hidden size {config['hidden_size']}, {config['torch_dtype']}"
    with case(f"With {plural(sequences, 'sequence')} of {tokens} tokens ({words})"):
        found, right = student.run(ask_cache_bytes, config, sequences, tokens), block_cache(config, sequences, tokens)
        need(not isinstance(found, str), f"cache_bytes returned {found}. Return a number of bytes.")
        need(
            found == right,
            f"one block's KV cache takes {right:,} bytes, but cache_bytes returned {found:,.0f}. "
            f"{why_bytes(found / right, config, sequences)}",
        )


@ex2.fact("cache_bytes counts the keys and values of every token of every sequence in one block")
def _(student):
    compare_bytes(student, TINY, 1, 7)
    compare_bytes(student, TINY, 3, 50)


@ex2.fact("cache_bytes is also right with fewer KV heads than attention heads, and with 2-byte numbers")
def _(student):
    compare_bytes(student, GROUPED, 5, 31)


def ask_place(lab, config, parameters, memory, sequences, prompt, new):
    from utils.exercises.facts.probes import called, kind_of

    try:
        found, changed = called(lab.place, config, parameters, memory, sequences, prompt, new)
    except ValueError:
        return {"raised": True}
    if not isinstance(found, (list, tuple)):
        return {"wrong": f"place returned {kind_of(found)}. Return a list with the number of blocks on each GPU."}
    for count in found:
        if isinstance(count, bool) or not hasattr(count, "__index__"):
            return {"wrong": f"place returned a list that contains {kind_of(count)}. Return whole numbers of blocks."}
    return {"counts": [int(count) for count in found], "changed": changed}


def bytes_on(counts, config, parameters, cache_of_a_block) -> list[int]:
    """The bytes on each GPU: the first has the embedding, the last the head."""
    size = getattr(torch, config["torch_dtype"]).itemsize
    found = [count * (parameters["block"] * size + cache_of_a_block) for count in counts]
    found[0] += parameters["embedding"] * size
    found[-1] += parameters["head"] * size
    return found


def contents_of(number, counts, config, parameters, sequences, tokens) -> str:
    """The bytes of a GPU, one by one. A guess at the mistake would often be wrong: several give the same counts."""
    size, count = getattr(torch, config["torch_dtype"]).itemsize, counts[number]
    block, every = parameters["block"] * size, block_cache(config, sequences, tokens)
    found = [f"{count} x ({block:,} for a block + {every:,} for its KV cache)"] if count else []
    found += [f"{parameters['embedding'] * size:,} for the embedding"] if number == 0 else []
    found += [f"{parameters['head'] * size:,} for the head"] if number == len(counts) - 1 else []
    return " + ".join(found)


def compare_place(student, config, memory, sequences, prompt, new, *, fits, parameters=None):
    """`fits`: a placement that fits, or None where there is none."""
    parameters = parameters or PARAMETERS
    given = ", ".join(f"{free:,}" for free in memory)
    layers = config["num_hidden_layers"]
    with case(
        f"With {layers} blocks on {plural(len(memory), 'GPU')} with {given} bytes, {plural(sequences, 'sequence')}, "
        f"prompt={prompt} and new={new}"
    ):
        run = student.run(ask_place, config, parameters, memory, sequences, prompt, new)
        if "wrong" in run:
            need(False, run["wrong"] if fits else f"no placement fits: raise ValueError. {run['wrong']}")
        every = block_cache(config, sequences, prompt + new)
        if run.get("raised"):
            return need(not fits, why_refused(fits, config, parameters, memory, every) if fits else "")
        counts = run["counts"]
        answer = "" if fits else "no placement fits, but "
        need(
            len(counts) == len(memory),
            f"{answer}place returned {plural(len(counts), 'number')} for {plural(len(memory), 'GPU')}. Return the "
            "number of blocks on each GPU, 0 if it has none.",
        )
        need(
            min(counts) >= 0,
            f"{answer}place returned {counts}. A GPU cannot hold fewer than 0 blocks: does it have room for the "
            "embedding or the head?",
        )
        need(
            sum(counts) == layers,
            f"{answer}place returned {counts} with {sum(counts)} blocks, and the model has {layers}."
            + ("" if fits else " Raise ValueError if blocks are left over."),
        )
        for number, (one, free) in enumerate(zip(bytes_on(counts, config, parameters, every), memory, strict=True)):
            if one > free:
                raising = "" if fits else " Raise ValueError if a GPU has too few bytes."
                contents = contents_of(number, counts, config, parameters, sequences, prompt + new)
                need(
                    False,
                    f"{answer}place returned {counts}. GPU {number} has {free:,} bytes, but then needs {one:,}: "
                    f"{contents}.{raising}",
                )
        need(not run["changed"], "place changed a list or dict that it was given. Work on a copy.")


def why_refused(fits, config, parameters, memory, every) -> str:
    """What a placement that fits needs, and what is special about it."""
    size = getattr(torch, config["torch_dtype"]).itemsize
    words = (
        f"a block and its cache need {parameters['block'] * size + every:,} bytes, the embedding "
        f"{parameters['embedding'] * size:,} and the head {parameters['head'] * size:,}. {fits} fits, but place raised "
        "ValueError."
    )
    if 0 in fits:
        words += " A GPU can have 0 blocks."
    if any(one == free for one, free in zip(bytes_on(fits, config, parameters, every), memory, strict=True)):
        words += " A GPU can be full to the last byte."
    return words


# In TINY a block has 40,000 bytes of weights and, for 2 sequences of 30 tokens, 46,080 bytes of cache. In GROUPED it
# has 20,000 and, for 4 sequences of 40 tokens, 40,960.


@ex2.fact("place puts each block on a GPU, and the weights and the KV cache of the longest request fit")
def _(student):
    compare_place(student, TINY, [510_000] * 3, 2, 20, 10, fits=[4, 5, 3])
    compare_place(student, GROUPED, [300_000] * 3, 4, 25, 15, fits=[3, 4, 3])


@ex2.fact("GPUs may differ in memory, and a GPU without room for a block gets none")
def _(student):
    compare_place(student, TINY, [250_000, 900_000, 300_000], 2, 10, 20, fits=[1, 10, 1])
    compare_place(student, TINY, [170_000, 950_000, 300_000], 2, 20, 10, fits=[0, 11, 1])


@ex2.fact("place raises ValueError if no placement fits, and only then")
def _(student):
    compare_place(student, TINY, [510_000, 430_000, 510_000], 2, 20, 10, fits=None)
    compare_place(student, TINY, [1_400_000], 2, 20, 10, fits=[12])


# --- ex3: decode in turns -------------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=3,
    title="Decode in turns",
    hints=[
        "Write down, in order, the kernels and copies that your loops queue on each device, for two groups and two "
        "tokens. When can device0 start the second token?",
        "A copy between GPUs is queued on both: it waits for everything that was launched there before, and later "
        "launches wait for it. When do you launch the copy of a new token to device0?",
        "A line that reads a value (.item(), .tolist(), .cpu(), print) makes Python wait for the device. Which line "
        "needs the value of a token before the end?",
        "While device1 computes stage 1 of one group, device0 can compute stage 0 of the next one. So launch a group's "
        "copy to device1 first, then stage 0 of the next group, then the group's stage 1.",
    ],
    likely={
        "Expected all tensors to be on the same device": "stage0 needs tokens on device0, and stage1 needs hidden "
        "states on device1.",
        "Sizes of tensors must match except in dimension 1": "Does each group have its own cache?",
    },
)

VOCABULARY = 50
SLOW = 240_000  # a sum of very many numbers for very few results is slow on a GPU and quick here
ENOUGH = 0.9  # of the time of a run; a right answer reaches 0.95 here, a serial one 0.5
MOST_WORK = 1.12  # times what is needed: a step that nobody reads, at the end of each group, is no harm


def run_interleaved(lab, places, inner_sizes, prompts, new, seed):
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.decoding import TwoStages

    torch.manual_seed(seed)
    model = TwoStages(50, inner_sizes, [torch.device(place) for place in places])
    with torch.no_grad():
        found = lab.interleaved(model, [torch.from_numpy(prompt.copy()) for prompt in prompts], new)
    if not isinstance(found, (list, tuple)):
        return {"wrong": f"interleaved returned {kind_of(found)}. Return a list with one tensor for each group."}
    for tokens in found:
        if not isinstance(tokens, torch.Tensor):
            return {"wrong": f"interleaved returned a list with {kind_of(tokens)}. Put one tensor in for each group."}
    return {"found": [array(tokens) for tokens in found]}


def prompts_of(shapes, seed) -> list[np.ndarray]:
    numbers = np.random.default_rng(seed)
    return [numbers.integers(0, VOCABULARY, shape) for shape in shapes]


def made_alone(model: TwoStages, prompt, new) -> np.ndarray:
    """The tokens of one group, without any other, on the CPU."""
    kept, tokens, found = model.new_cache(), torch.from_numpy(prompt), []
    with torch.no_grad():
        for _ in range(new):
            tokens = model.stage1(model.stage0(tokens, kept), kept).argmax(-1, keepdim=True)
            found.append(tokens.numpy())
    return np.concatenate(found, 1)


def need_tokens(found, inner_sizes, seed, prompts, new):
    need(
        len(found) == len(prompts),
        f"interleaved returned {plural(len(found), 'tensor')} for {plural(len(prompts), 'group')}. Return one for "
        "each group, in order.",
    )
    torch.manual_seed(seed)
    model = TwoStages(VOCABULARY, inner_sizes, [torch.device("cpu")] * 2)
    right = [made_alone(model, prompt, new) for prompt in prompts]
    for group, (mine, wanted, prompt) in enumerate(zip(found, right, prompts, strict=True)):
        need(
            mine.shape == wanted.shape,
            f"the tokens of group {group} have the shape {mine.shape}, but they should have (sequences, new) = "
            f"{wanted.shape}. {why_shape(mine, wanted, prompt)}",
        )
        if not (mine == wanted).all():
            others = [number for number, one in enumerate(right) if one.shape == mine.shape and (one == mine).all()]
            why = f"They are the tokens of group {others[0]}." if others else "Does each group have its own cache?"
            first = int(np.flatnonzero((mine != wanted).any(0))[0])
            if (mine[:, :-1] == wanted[:, 1:]).all() and wanted.shape[1] > 1:
                why = "They are the tokens of one step later: the first new token comes from the prompt's logits."
            elif first and not others:
                why = "Does each step get the group's newest token and its own cache?"
            need(
                False,
                f"new token {first + 1} of group {group} differs from that of the group decoded alone. {why}",
            )


def why_shape(mine, wanted, prompt) -> str:
    rows, new = wanted.shape
    if mine.shape == (rows, new + prompt.shape[1]):
        return "Return the new tokens without the prompt."
    if mine.shape == (new, rows):
        return "Each row is a sequence."
    if mine.ndim == 2 and len(mine) == rows and abs(mine.shape[1] - new) == 1:
        return "The first new token comes from the prompt's logits, and counts."
    return "Each row has the new tokens of a sequence."


def compare_interleaved(student, places, shapes, new, *, seed=1):
    """`shapes`: (sequences, tokens) of each group's prompts."""
    prompts = prompts_of(shapes, seed)
    words = " and ".join(f"{plural(rows, 'sequence')} of {plural(length, 'token')}" for rows, length in shapes)
    with case(f"With {plural(len(shapes), 'group')} ({words}), new={new} and stages on {', '.join(places)}"):
        run = student.run(run_interleaved, list(places), [16, 16], prompts, new, seed)
        need("wrong" not in run, run.get("wrong", ""))
        need_tokens(run["found"], [16, 16], seed, prompts, new)


@ex3.fact("two groups get the tokens that each gets alone")
def _(student):
    compare_interleaved(student, student.devices, [(3, 6), (3, 6)], 6)


@ex3.fact("three groups of different sizes also get the tokens that each gets alone")
def _(student):
    compare_interleaved(student, student.devices, [(2, 5), (4, 3), (1, 7)], 4, seed=2)


def watch_interleaved(lab, places, inner_sizes, prompts, new, seed):
    """How long the run took on the simulated clock, and how long each device computed."""
    import warnings
    from dataclasses import asdict

    import torch

    import simgpu
    from utils.exercises.facts.probes import array
    from utils.kits.decoding import TwoStages
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    if not all([is_simulated(place) for place in places]):
        return {"watched": False}
    torch.manual_seed(seed)
    model = TwoStages(50, inner_sizes, [torch.device(place) for place in places])
    given = [torch.from_numpy(prompt.copy()) for prompt in prompts]
    with torch.no_grad(), record(*places) as timeline, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with simgpu.unfinished_reads() as races:
            found = lab.interleaved(model, given, new)
    moments = [event.launched or 0.0 for event in timeline.events]
    products = [moment for moment, event in zip(moments, timeline.events, strict=True) if event.flops]
    first, last = min(products, default=0.0), max(products, default=0.0)
    inside = [each for each in zip(moments, timeline.events, strict=True) if first <= each[0] <= last]
    launched = [[moment, event.device, event.kind, event.flops] for moment, event in inside]
    return {
        "watched": True,
        "span": timeline.span,
        "busy": [timeline.busy(place) for place in places],
        "launched": sorted(launched),
        "races": len(races),
        "flops": sum([event.flops for event in timeline.events]),
        "found": [array(tokens) for tokens in found],
        "timeline": asdict(timeline),
    }


def order_of(run, places, inner_sizes) -> str:
    """The launches: "0" and "1" are stages, "c" is a copy to device1 and "b" one to device0."""
    least = min(inner_sizes) * 8  # FLOPs of the second product of a stage for one sequence, at least
    order = ""
    for _, device, kind, flops in run["launched"]:
        number = places.index(device)
        if kind == "kernel" and flops >= least:
            order += str(number)
        elif kind == "d2d":
            order += "cb"[number]
    return order.replace("00", "0").replace("11", "1")  # a stage has two such products


def number_of_waits(run) -> int:
    """How often Python waited for a device: a launch takes the host the same time, and a wait much longer."""
    moments = [moment for moment, *_ in run["launched"]]
    return int((np.diff(moments) > 0.2 * min(run["busy"]) / max(run["steps"], 1)).sum())


def why_taking_turns(run, places, inner_sizes, groups) -> str:
    """The likeliest reason that the devices take turns."""
    order = order_of(run, places, inner_sizes)
    if number_of_waits(run) > 2 * groups:
        return (
            "Python waits for a device in the loop: a line reads a value (.item(), .tolist(), .cpu(), print), or "
            "synchronizes."
        )
    if one_after_the_other(run, groups):
        return "The groups are decoded one after the other: all tokens of a group, then all of the next."
    if "00" in order.replace("c", "") and "11" in order.replace("b", ""):
        return "Stage 0 of all groups is launched before stage 1 of any group, so device1 is idle meanwhile."
    if order.startswith("00"):
        return "The copy of a hidden state is launched after stage 0 of the next group, so it waits for that stage."
    if "0c1" in order and "c0" not in order:
        return (
            "Each stage 1 is launched before stage 0 of the next group. The next copy is queued on both devices and "
            "waits for stage 1, so the next group's stage 0 starts only when stage 1 has ended."
        )
    return "Python does not wait, so look at the order of the launches: which stages does a copy between GPUs wait for?"


def one_after_the_other(run, groups) -> bool:
    """Whether the groups, which differ in their number of sequences, were computed one after the other."""
    first = [device for _, device, _, flops in run["launched"] if flops][:1]
    products = [flops for _, device, _, flops in run["launched"] if flops and [device] == first]
    sizes = [flops for number, flops in enumerate(products) if number == 0 or products[number - 1] != flops]
    return len(sizes) > 0 and sizes.count(min(products)) == 1


def need_busy(student, places, shapes, new, *, inner_sizes=(SLOW, SLOW), seed=3):
    """The busier device computes nearly all the time, on what there is to do."""
    prompts = prompts_of(shapes, seed)
    inner_sizes = list(inner_sizes)
    with case(f"With {plural(len(shapes), 'group')} and new={new}"):
        run = student.run(watch_interleaved, list(places), inner_sizes, prompts, new, seed)
        if not run["watched"]:
            return
        need_tokens(run["found"], inner_sizes, seed, prompts, new)
        run["steps"] = new * len(shapes)
        share = max(run["busy"]) / run["span"] if run["span"] else 0.0
        need(
            share >= ENOUGH,
            f"on the simulated clock, the busier device computes for {share:.0%} of the time, but {ENOUGH:.0%} is "
            f"required. {why_taking_turns(run, list(places), inner_sizes, len(shapes))}",
        )
        tokens = sum(rows * (length + new - 1) for rows, length in shapes)
        needed = tokens * 2 * 2 * 8 * sum(inner_sizes)
        need(
            run["flops"] <= MOST_WORK * needed,
            f"the devices perform {run['flops'] / needed:.2f} times the required operations. Compute each token once: "
            "after the prompt, stage0 gets one token for each sequence.",
        )
        need(
            not run["races"],
            "a stream read memory that another one had not finished writing. Make the reading stream wait: "
            "stream.wait_stream(other).",
        )


@ex3.fact(f"the busier device computes for {ENOUGH:.0%} of the time (checked on simulated devices)")
def _(student):
    need_busy(student, student.devices, [(4, 3), (3, 3)], 12)


@ex3.timeline
def _(student):
    prompts = prompts_of([(4, 3), (3, 3)], 3)
    return student.run(watch_interleaved, student.devices, [SLOW, SLOW], prompts, 6, 3)["timeline"]
