"""Lab 15's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. Utilizations are computed by
hand, bytes are those of the tensors that autograd saves here, and what a step costs is compared with a step here.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.checkpoint import create_selective_checkpoint_contexts

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import build, fill, gradient_of
from utils.exercises.facts.reference import need_devices
from utils.kits.step import ChunkedGate, GatedBlock, LastTokenHead, Recomputed, checkpointed_step
from utils.observe.trace import record

lab = Lab("lab15", "What a step costs")


def counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


# --- ex1: utilization -----------------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="MFU and HFU",
    hints=[
        "Count one layer first: the query and output matrices, the key and value matrices, and the MLP's matrices. "
        "What shape does each have?",
        "How many tokens do all GPUs process in a step? Multiply the operations of one token by this number.",
        "How many operations can all GPUs together perform in these seconds, in the dtype of the products?",
        "A forward pass performs a third of the operations of a step. Which part of it is performed again if some "
        "layers are recomputed?",
    ],
)

SMALL = {
    "hidden_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "intermediate_size": 5632,
    "vocab_size": 32_000,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}
GROUPED = {
    **SMALL,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14_336,
    "vocab_size": 128_256,
}
TIED = {**GROUPED, "hidden_size": 2048, "intermediate_size": 8192, "tie_word_embeddings": True}
A100 = {
    "float32": {"dense": 19.5e12},
    "bfloat16": {"dense": 312e12, "sparse": 624e12},
    "int8": {"dense": 624e12, "sparse": 1248e12},
}
H100 = {
    "float32": {"dense": 67e12},
    "bfloat16": {"dense": 989.4e12, "sparse": 1978.9e12},
    "float8_e4m3fn": {"dense": 1978.9e12, "sparse": 3957.8e12},
}
ENOUGH = 1e-3  # relative; the weights of norms are less


def ask_utilization(lab, name, config, sequences, length, seconds, gpus, peak, recomputed):
    from utils.exercises.facts.probes import called, kind_of

    given = [config, sequences, length, seconds, gpus, peak]
    found, changed = called(lab.mfu, *given) if name == "mfu" else called(lab.hfu, *given, recomputed)
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        return [kind_of(found), changed]
    return [float(found), changed]


def layer_weights(config: dict, *, heads: str = "num_key_value_heads", matrices: int = 3) -> int:
    """The weights of one layer's products."""
    hidden = config["hidden_size"]
    kv_size = hidden // config["num_attention_heads"] * config[heads]
    return 2 * hidden * hidden + 2 * hidden * kv_size + matrices * hidden * config["intermediate_size"]


def operations(
    config: dict,
    length: int,
    recomputed: int = 0,
    *,
    each: float = 6,
    attention: float = 12,
    embedding: bool = False,
    head: bool = True,
    again: float = 2,
    attention_again: float = 4,
    **layer: Any,
) -> float:
    """The floating-point operations for one token in a step, with `recomputed` layers computed forward twice."""
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    one = layer_weights(config, **layer)
    weights = layers * one + hidden * config["vocab_size"] * (head + embedding)
    step = each * weights + attention * layers * hidden * length
    return step + recomputed * (again * one + attention_again * hidden * length)


def mistaken_operations(config: dict, length: int, recomputed: int) -> Iterator[tuple[str, float]]:
    """(the mistake, the operations for one token) for each known mistake in them."""
    count = partial(operations, config, length, recomputed)
    layers, hidden = config["num_hidden_layers"], config["hidden_size"]
    halved = count(attention=6, attention_again=2)
    yield "The embedding table is counted, but a lookup multiplies nothing.", count(embedding=True)
    yield "lm_head is missing: it is a product, even where it shares its weights.", count(head=False)
    yield "Attention is missing.", count(attention=0, attention_again=0)
    yield "These are a forward pass's operations for each weight, not a step's.", count(each=2)
    yield "These are a forward pass's operations, not a step's.", count(each=2, attention=4)
    yield "Forward and backward perform more than 3 operations for each weight.", count(each=3)
    yield "A backward pass costs more than a forward pass.", count(each=4, attention=8)
    yield "Keys and values are counted as if each query head had its own KV head.", count(heads="num_attention_heads")
    yield "An MLP with a gate has a different number of matrices.", count(matrices=2)
    yield "Attention is counted for half of the square. The convention here is the full square.", halved
    yield "Attention's operations grow with the length of the sequence.", count() - 12 * layers * hidden * (length - 1)
    yield "Attention is counted for one layer only.", count() - 12 * (layers - 1) * hidden * length
    yield "Attention is counted for the forward pass only.", count(attention=4)
    if recomputed:
        full = operations(config, length) * 4 / 3
        yield "The recomputed layers are missing.", operations(config, length)
        yield "All layers and lm_head are counted as recomputed.", full
        yield "All layers are counted as recomputed.", operations(config, length, layers)
        yield "Recomputation is counted as a forward and a backward pass.", count(again=6, attention_again=12)
        yield "Recomputation is counted as a forward and a backward pass.", count(again=4, attention_again=8)
        yield "The attention of recomputed layers is counted for a whole step.", count(attention_again=12)
        yield "The attention of recomputed layers is missing.", count(attention_again=0)
        yield "Only one layer is counted as recomputed.", operations(config, length, 1)
    else:
        yield "Recomputed operations are counted.", count(each=8, attention=16)
        yield "Recomputed operations are counted.", count(each=8)


def mistaken_rates(config: dict, peak: dict, sequences: int, length: int, gpus: int) -> Iterator[tuple[str, float]]:
    """(the mistake, how many times too much it finds) for each known mistake in the rest."""
    dense = peak[config["torch_dtype"]]["dense"]
    for dtype, kinds in peak.items():
        for kind, number in kinds.items():
            if kind == "sparse" and dtype == config["torch_dtype"]:
                yield "You used the peak for sparse matrices.", dense / number
            elif number != dense:
                yield (
                    f"The peak is that of {dtype}, {kind}, but the products are in {config['torch_dtype']}.",
                    (dense / number),
                )
    yield f"It is {gpus} times too large. Use the peak of all GPUs, because `sequences` is for all GPUs.", gpus
    yield f"It is {gpus} times too small. Both `sequences` and the peak to divide by are for all GPUs.", 1 / gpus
    yield (
        "`sequences` is the number for all GPUs. Dividing it among the GPUs loses the remainder.",
        sequences // gpus * gpus / sequences,
    )
    yield "Return a fraction, not a percentage.", 100
    yield "A step has more tokens than sequences.", 1 / length
    yield "A step has more than one sequence.", 1 / sequences


def why_utilization(found: float, right: float, config, sequences, length, gpus, peak, recomputed) -> str:
    rates = mistaken_rates(config, peak, sequences, length, gpus)
    shares = [(words, times) for words, times in rates if times not in (0, 1)]
    true = operations(config, length, recomputed)
    wrong = [(words, count / true) for words, count in mistaken_operations(config, length, recomputed)]
    both = [(f"{words} {more}", count * times) for (words, count), (more, times) in itertools.product(wrong, shares)]
    for mistakes in ([*shares, *wrong], both):
        words, times = min(mistakes, key=lambda one: abs(found - right * one[1]) / (right * one[1]))
        if math.isclose(found, right * times, rel_tol=ENOUGH / 2):
            return words
    again = ", and a third of a layer's for each recomputed layer" if recomputed else ""
    return f"Compare your operations for one token with 6 x weights + 12 x layers x hidden size x length{again}."


def compare_utilization(student, name, config, sequences, length, seconds, gpus, peak, recomputed=0):
    dtype = config["torch_dtype"]
    told = (
        f"With {config['num_hidden_layers']} layers, hidden size {config['hidden_size']}, "
        f"{config['num_attention_heads']} heads, {counted(config['num_key_value_heads'], 'KV head')}, vocabulary "
        f"{config['vocab_size']:,}, {counted(sequences, 'sequence')} of {length:,} tokens, {seconds} s, "
        f"{counted(gpus, 'GPU')} and {dtype}"
    )
    told += f", {recomputed} of the layers recomputed" if name == "hfu" else ""
    with case(told):
        found, changed = student.run(ask_utilization, name, config, sequences, length, seconds, gpus, peak, recomputed)
        need(not isinstance(found, str), f"{name} returned {found}. Return a number.")
        rate = gpus * peak[dtype]["dense"] * seconds
        right = operations(config, length, recomputed) * sequences * length / rate
        if not math.isclose(found, right, rel_tol=ENOUGH):
            why = why_utilization(found, right, config, sequences, length, gpus, peak, recomputed)
            need(False, f"{name} is {right:.4f}, but the function returned {found:.4g}. {why}")
        need(
            not changed,
            f"{name} has changed its input. Work on a copy, because the caller may need the original again.",
        )


@ex1.fact("mfu is right for one GPU: it counts the weights in products, and attention")
def _(student):
    compare_utilization(student, "mfu", SMALL, 8, 3000, 1.4, 1, A100)
    compare_utilization(student, "mfu", SMALL, 2, 15_000, 2.7, 1, A100)


@ex1.fact("mfu is right with grouped-query attention, several GPUs and shared embeddings")
def _(student):
    compare_utilization(student, "mfu", GROUPED, 64, 7000, 8.1, 8, H100)
    compare_utilization(student, "mfu", TIED, 32, 3500, 3.6, 4, A100)


@ex1.fact("hfu also counts the layers that are recomputed, and equals mfu if there are none")
def _(student):
    compare_utilization(student, "hfu", SMALL, 8, 5000, 2.7, 1, A100, 16)
    compare_utilization(student, "hfu", GROUPED, 64, 7000, 9.8, 8, H100, 20)
    compare_utilization(student, "hfu", GROUPED, 16, 7000, 8.1, 2, H100, 0)


# --- ex2: bytes that a block keeps ----------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="Bytes kept for the backward pass",
    hints=[
        "saved_tensors_hooks calls the pack hook with each tensor that an operator saves. Print their shapes for a "
        "stack of two layers. Which of them are activations?",
        "Two views are two tensors. What do they share?",
        "A linear layer saves a transposed view of its weight. How can you tell whose memory this is?",
        "How many bytes stay allocated for a tensor that is a part of a larger one?",
    ],
    likely={
        "does not require grad": "kept_bytes needs no backward pass.",
    },
)

TINY_STACK = [["Linear", 16, 48], ["GELU"], ["Linear", 48, 8]]
DROPS = [["Linear", 16, 48], ["GELU"], ["Dropout", 0.5], ["Linear", 48, 8]]


def ask_kept(lab, kind, sizes, shape, dtype, place, frozen, mode):
    """What kept_bytes returns, twice, and what it leaves behind."""
    import torch

    from utils.exercises.facts.probes import array, build, kind_of
    from utils.kits.step import ChunkedGate, GatedBlock, LastTokenHead, Recomputed

    if kind == "stack":
        block = build(sizes)
    elif kind == "head":
        block = LastTokenHead(*sizes)
    elif kind == "chunked gate":
        block = ChunkedGate(*sizes)
    else:
        block = GatedBlock(*sizes, fused=kind != "unfused block")
        if kind == "recomputed block":
            block = Recomputed(block)
    for parameter in list(block.parameters())[:frozen]:
        parameter.requires_grad_(False)
    block.to(place, getattr(torch, dtype))
    block.train(mode == "training")
    x = torch.ones(shape, dtype=getattr(torch, dtype)).to(place).requires_grad_()
    tensors = [*block.parameters(), x]
    for tensor in tensors:
        tensor.grad = torch.full_like(tensor, 2.0)  # from an earlier backward pass
    required = [tensor.requires_grad for tensor in tensors]
    found = [lab.kept_bytes(block, x) for _ in range(2)]
    for each in found:
        if isinstance(each, bool) or not (hasattr(each, "__index__") or isinstance(each, float)):
            return {"wrong": kind_of(each)}
    return {
        "found": [float(each) for each in found],
        "gradients": [array(tensor.grad.float()) if tensor.grad is not None else None for tensor in tensors],
        "required": [tensor.requires_grad for tensor in tensors] == required,
        "modes": sorted({"training" if module.training else "evaluation" for module in block.modules()}),
        "hooks": len([m for m in block.modules() if len(m._forward_hooks) + len(m._forward_pre_hooks)]),
    }


def block_of(kind, sizes) -> nn.Module:
    if kind == "stack":
        return build(sizes)
    if kind == "head":
        return LastTokenHead(*sizes)
    if kind == "chunked gate":
        return ChunkedGate(*sizes)
    block = GatedBlock(*sizes, fused=kind != "unfused block")
    return Recomputed(block) if kind == "recomputed block" else block


def saves(kind, sizes, shape, dtype, place, frozen, mode):
    """What autograd saves here, the bytes of each layer's output, and those of all weights.

    Of each save: its storage's address and bytes, the bytes of the view and of a number in it, whose it is ("weight",
    "frozen", "input" or ""), and the view's address. All storages are alive at the end, so no two share an address.
    """
    block = block_of(kind, sizes)
    for parameter in list(block.parameters())[:frozen]:
        parameter.requires_grad_(False)
    block.to(place, getattr(torch, dtype))
    block.train(mode == "training")
    x = torch.ones(shape, dtype=getattr(torch, dtype)).to(place).requires_grad_()
    weights = {p.untyped_storage().data_ptr(): p for p in block.parameters()}
    found, outputs = [], []

    def pack(tensor):
        storage = tensor.untyped_storage()
        place = storage.data_ptr()
        whose = "input" if place == x.untyped_storage().data_ptr() else ""
        if place in weights:
            whose = "weight" if weights[place].requires_grad else "frozen"
        found.append((place, storage.nbytes(), tensor.nbytes, tensor.element_size(), whose, tensor.data_ptr()))
        return tensor

    leaves = [module for module in block.modules() if not list(module.children())]
    hooks = [leaf.register_forward_hook(lambda _, __, output: outputs.append(output.nbytes)) for leaf in leaves]
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        kept = block(x)
    for hook in hooks:
        hook.remove()
    del kept
    return found, outputs, sum(p.nbytes for p in weights.values())


WEIGHTS = ("weight", "frozen")


def bytes_of(found, *, but=WEIGHTS, size=1, key=0) -> int:
    """The bytes (column `size`) of the saves, the largest of each `key`, but those of some owners."""
    largest: dict[int, int] = {}
    for each in found:
        if each[4] not in but:
            largest[each[key]] = max(each[size], largest.get(each[key], 0))
    return sum(largest.values())


def why_kept(mine: float, found, outputs, of_weights: int) -> str:
    right = bytes_of(found)
    all_saves = [each for each in found if each[4] not in WEIGHTS]
    numbers = bytes_of([(place, size // item, 0, item, whose, 0) for place, size, _, item, whose, _ in found])
    for words, number in (
        ("Nothing was saved: was autograd on, and did the block run inside the hooks?", 0),
        ("Weights are counted, but they exist without a forward pass.", bytes_of(found, but=())),
        ("Weights are counted, but they exist without a forward pass.", sum(each[1] for each in found)),
        ("Weights are counted, but they exist without a forward pass.", sum(each[2] for each in found)),
        ("A view keeps its whole storage.", bytes_of(found, size=2, key=5)),
        ("A view keeps its whole storage.", bytes_of(found, size=2)),
        ("Tensors that share their memory are counted several times.", sum(each[1] for each in all_saves)),
        ("Tensors that share their memory are counted several times.", sum(each[2] for each in all_saves)),
        ("The input is missing. It is kept, too.", bytes_of(found, but=(*WEIGHTS, "input"))),
        ("Frozen weights are counted. They are weights, too.", bytes_of(found, but=("weight",))),
        ("Weights that no operator saves are subtracted.", bytes_of(found, but=()) - of_weights),
        ("Return bytes, not numbers.", numbers),
        ("The dtype decides how many bytes a number has.", 4 * numbers),
        ("Views of the same memory are counted once for each address at which they begin.", bytes_of(found, key=5)),
        (
            "These are the outputs of the layers. Not all outputs are kept, and other tensors are kept, too.",
            sum(outputs),
        ),
    ):
        if mine == number and number != right:
            return words
    if mine < right:
        return "Some memory that is kept is not counted."
    return "Some memory that is not an activation is counted, or some memory is counted more than once."


NAMES = {
    "stack": "a stack of layers",
    "head": "a head for the last token",
    "chunked gate": "a gated MLP whose two matrices are the halves of one parameter",
    "block": "a block with fused attention",
    "unfused block": "a block that computes the attention scores itself",
    "recomputed block": "a block that is recomputed",
}


def ask_block(student, kind, sizes, shape, dtype="float32", place="cpu", frozen=0, mode="training") -> tuple[str, dict]:
    words = f"With {NAMES[kind]}, an input of {' x '.join(map(str, shape))} in {dtype} on {place}"
    words += f" and {counted(frozen, 'parameter')} frozen" if frozen else ""
    words += ", in evaluation mode" if mode == "evaluation" else ""
    with case(words):
        run = student.run(ask_kept, kind, sizes, list(shape), dtype, place, frozen, mode)
        need("wrong" not in run, f"kept_bytes returned {run.get('wrong')}. Return a number of bytes.")
    return words, run


def compare_kept(student, kind, sizes, shape, dtype="float32", place="cpu", frozen=0, mode="training"):
    words, run = ask_block(student, kind, sizes, shape, dtype, place, frozen, mode)
    if place != "cpu":
        need_devices(student)
    found, outputs, of_weights = saves(kind, sizes, tuple(shape), dtype, place, frozen, mode)
    right = bytes_of(found)
    mine, again = run["found"]
    with case(words):
        why = "" if mine == right else why_kept(mine, found, outputs, of_weights)
        if mine != right and mine != again:
            why = f"A second call returned {again:,.0f}. Does `pack` return the tensor?"
        need(mine == right, f"the forward pass keeps {right:,} bytes, but kept_bytes returned {mine:,.0f}. {why}")
        why = "Start each count at 0." if again > mine else "Does `pack` return the tensor?"
        need(mine == again, f"kept_bytes returned {mine:,.0f}, but {again:,.0f} when it was called again. {why}")


@ex2.fact("kept_bytes counts the activations that a stack of layers keeps, and no weights")
def _(student):
    compare_kept(student, "stack", TINY_STACK, (5, 16))
    compare_kept(student, "stack", [["Linear", 8, 24], ["ReLU"], ["LayerNorm", 24], ["Linear", 24, 4]], (7, 8))


@ex2.fact("a part of a tensor keeps the whole tensor")
def _(student):
    compare_kept(student, "head", [32, 5], (3, 20, 32))


@ex2.fact("each piece of memory counts once, however many operators save it")
def _(student):
    compare_kept(student, "block", [32, 4, 2, 64], (2, 12, 32))


@ex2.fact("the bytes are right in bfloat16, with stored attention scores, with recomputation and on a device")
def _(student):
    compare_kept(student, "block", [32, 4, 2, 64], (2, 12, 32), "bfloat16")
    compare_kept(student, "unfused block", [32, 4, 2, 64], (2, 12, 32))
    compare_kept(student, "recomputed block", [32, 4, 2, 64], (2, 12, 32))
    compare_kept(student, "unfused block", [32, 4, 2, 64], (2, 12, 32), "float32", student.devices[0])


def need_left_alone(student, kind, sizes, shape, frozen=0, mode="training"):
    words, run = ask_block(student, kind, sizes, shape, frozen=frozen, mode=mode)
    with case(words):
        need(
            all(each is not None and bool((each == 2).all()) for each in run["gradients"]),
            "kept_bytes has changed gradients that the block or x had before. Leave them as they were: the bytes are "
            "known before the backward pass.",
        )
        need(run["required"], "kept_bytes has changed which tensors require a gradient. Leave requires_grad as it was.")
        need(
            run["modes"] == [mode],
            f"after kept_bytes, layers are in {' and '.join(run['modes'])} mode. Leave them as they were.",
        )
        need(not run["hooks"], "kept_bytes has left hooks on the block's modules. Remove them.")


@ex2.fact("kept_bytes leaves the block and its input as they were")
def _(student):
    for mode in ("training", "evaluation"):
        need_left_alone(student, "stack", DROPS, (5, 16), frozen=1, mode=mode)
        compare_kept(student, "stack", DROPS, (5, 16), mode=mode)


# --- ex3: recompute under a cap -------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=3,
    title="Recompute the least",
    hints=[
        "The seconds of all operators are given. Which sum do you want to be small: that of the saved operators, or of "
        "the others?",
        "With at most 12 operators, how many sets of them are there? itertools.combinations lists those of one size.",
        "A policy gets an operator, and `saved` has names. How can you compare the two?",
        "checkpoint calls context_fn() once for each block, without arguments, and needs new contexts each time.",
    ],
    likely={
        "takes 1 positional argument but": "A policy is called with a context, the operator and its arguments.",
        "backward once on any region": "Does each block get contexts of its own?",
        "takes 0 positional arguments": "checkpoint calls context_fn without arguments. What does contexts return?",
        "object is not callable": "checkpoint calls the object that contexts returns. Return a function.",
        "missing 2 required positional arguments": "checkpoint calls context_fn without arguments. What "
        "does contexts return?",
        "missing 1 required positional argument": "A policy is called with a context, the operator and its arguments.",
    },
)

# bytes and seconds
PRODUCTS = {
    "aten.native_layer_norm.default": (8_400_000, 0.005),
    "aten.mm.default": (58_000_000, 0.21),
    "aten.gelu.default": (33_000_000, 0.018),
    "aten.add.Tensor": (16_000_000, 0.01),
}
EVEN = {
    "aten.mm.default": (60, 6.5),
    "aten.gelu.default": (50, 5.0),
    "aten.add.Tensor": (50, 5.0),
    "aten.mul.Tensor": (70, 1.0),
}
MANY = {
    "aten.mm.default": (70, 9.0),
    "aten.bmm.default": (41, 5.0),
    "aten.gelu.default": (25, 3.1),
    "aten.add.Tensor": (20, 1.0),
    "aten.mul.Tensor": (34, 4.1),
    "aten._softmax.default": (12, 0.5),
}
SHORT = {
    "aten.mm.default": (5, 4e-7),
    "aten.gelu.default": (5, 6e-7),
    "aten.silu.default": (5, 9e-7),
    "aten.add.Tensor": (5, 7e-7),
}


def ask_choice(lab, table, cap):
    from utils.exercises.facts.probes import called, kind_of

    found, changed = called(lab.choose, table, cap)
    if not isinstance(found, (set, frozenset, list, tuple)):
        return {"wrong": f"choose returned {kind_of(found)}. Return a set of operators' names."}
    for name in found:
        if not isinstance(name, str):
            return {"wrong": f"choose returned a set that contains {kind_of(name)}. Return a set of names."}
    return {"saved": sorted({str(name) for name in found}), "changed": changed}


def table_of(operators: dict[str, tuple]) -> dict[str, dict]:
    return {name: {"bytes": size, "seconds": seconds} for name, (size, seconds) in operators.items()}


def best_choice(table: dict[str, dict], cap: float) -> tuple[float, list[str]]:
    """(the seconds of recomputation, what is saved) of the best choice."""
    everything = sum(each["seconds"] for each in table.values())
    best = everything, []
    for count in range(1, len(table) + 1):
        for names in itertools.combinations(table, count):
            if sum(table[name]["bytes"] for name in names) <= cap:
                left = everything - sum(table[name]["seconds"] for name in names)
                best = min(best, (left, sorted(names)))
    return best


def greedy(table: dict[str, dict], cap: float, key: Callable[[dict], float]) -> list[str]:
    """What is saved if operators are taken in an order, each that fits."""
    names, left = [], cap
    for name in sorted(table, key=lambda name: key(table[name])):
        if table[name]["bytes"] <= left:
            names.append(name)
            left -= table[name]["bytes"]
    return sorted(names)


def why_choice(saved: list[str], table: dict[str, dict], cap: float) -> str:
    others = sorted(set(table) - set(saved))
    orders = (
        ("the operators with the most seconds first", lambda each: -each["seconds"]),
        ("the operators with the most bytes first", lambda each: -each["bytes"]),
        ("the operators with the fewest bytes first", lambda each: each["bytes"]),
        ("the operators with the most seconds for each byte first", lambda each: -each["seconds"] / each["bytes"]),
    )
    if saved and others == best_choice(table, cap)[1]:
        return "These are the operators to recompute. Return those to save."
    if not saved:
        return "Nothing is saved, although there is room."
    for words, key in orders:
        if saved == greedy(table, cap, key):
            return f"You get this set if you take {words}. Another set fits and leaves less to recompute."
    if saved == best_choice(table, cap - 1)[1]:
        return "Another set leaves less to recompute and takes exactly cap bytes, which is allowed."
    return "Another set fits and leaves less to recompute."


def compare_choice(student, table, cap):
    told = ", ".join(f"{name} {each['bytes']:,} B {each['seconds']:g} s" for name, each in table.items())
    with case(f"With cap={cap:,} and {told}"):
        run = student.run(ask_choice, table, cap)
        need("wrong" not in run, run.get("wrong", ""))
        saved = run["saved"]
        unknown = [name for name in saved if name not in table]
        need(not unknown, f"choose returned {', '.join(unknown)}, which is not among the operators.")
        size = sum(table[name]["bytes"] for name in saved)
        words = ", ".join(saved) or "nothing"
        need(size <= cap, f"choose saves {words}: {size:,} bytes, which is more than the cap.")
        least, _ = best_choice(table, cap)
        left = sum(each["seconds"] for name, each in table.items() if name not in saved)
        need(
            left <= least + 1e-9 * (1 + least),
            f"choose saves {words}, which leaves {left:g} s to recompute, but {least:g} s are possible. "
            f"{why_choice(saved, table, cap)}",
        )
        need(
            not run["changed"],
            "choose has changed its input. Work on a copy, because the caller may need the original again.",
        )


@ex3.fact("choose does not exceed the cap, and leaves the least to recompute")
def _(student):
    table = table_of(PRODUCTS)
    for cap in (67_000_000, 100_000_000, 57_000_000, 200_000_000, 115_400_000, 1_000):
        compare_choice(student, table, cap)


@ex3.fact("choose finds the best set even where a greedy choice misses it")
def _(student):
    compare_choice(student, table_of(EVEN), 101)
    compare_choice(student, table_of(MANY), 100)
    compare_choice(student, table_of(MANY), 125)


CHECKED = [32, 4, 2, 64]
LENGTH = 24
CHOICES = {
    "the products": ["aten.mm.default"],
    "norms and activations": ["aten.native_layer_norm.default", "aten.silu.default", "aten.mul.Tensor"],
}


def run_policy(lab, saved, sizes, length, place, steps):
    """The loss and gradients of two blocks with the student's contexts, and what the devices did."""
    import contextlib

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, gradient_of
    from utils.kits.step import GatedBlock, checkpointed_step
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    blocks = nn.ModuleList([GatedBlock(*sizes), GatedBlock(*sizes)])
    fill(blocks, 5)
    blocks.to(place)
    gpu = torch.get_device_module(place) if is_simulated(place) else None
    given = set(saved)
    context_fn = lab.contexts(given)
    found = None
    for _ in range(steps):
        x = torch.linspace(-1.0, 1.0, 2 * length * sizes[0]).reshape(2, length, sizes[0]).to(place).requires_grad_()
        blocks.zero_grad()
        before = gpu.memory_allocated(place) if gpu is not None else 0
        with record(place) if gpu is not None else contextlib.nullcontext() as timeline:
            loss, held = checkpointed_step(
                blocks, x, context_fn, lambda: gpu.memory_allocated(place) if gpu is not None else 0
            )
        found = {
            "watched": gpu is not None,
            "changed": given != set(saved),
            "loss": array(loss),
            "gradients": [gradient_of(p) for p in blocks.parameters()] + [gradient_of(x)],
            "held": held - before,
            "flops": sum([event.flops for event in timeline.events]) if timeline is not None else 0,
            "busy": timeline.busy(place) if timeline is not None else 0.0,
        }
    return found


def contexts_of(saved: Sequence[str]) -> Callable:
    return partial(create_selective_checkpoint_contexts, lambda context, operator, *_, **__: str(operator) in saved)


def step_here(context_fn, sizes, length, place) -> dict:
    """What the same step gives and costs here. Without `context_fn`, nothing is recomputed."""
    blocks = nn.ModuleList([GatedBlock(*sizes), GatedBlock(*sizes)])
    fill(blocks, 5)
    blocks.to(place)
    x = torch.linspace(-1.0, 1.0, 2 * length * sizes[0]).reshape(2, length, sizes[0]).to(place).requires_grad_()
    if place == "cpu":
        loss, _ = checkpointed_step(blocks, x, context_fn, lambda: 0)
        return {"loss": loss.item(), "gradients": [gradient_of(p) for p in (*blocks.parameters(), x)]}
    gpu = torch.get_device_module(place)
    before = gpu.memory_allocated(place)
    with record(place) as timeline:
        _, held = checkpointed_step(blocks, x, context_fn, lambda: gpu.memory_allocated(place))
    return {
        "held": held - before,
        "flops": sum(event.flops for event in timeline.events),
        "busy": timeline.busy(place),
    }


@cache
def step_without_recomputation(sizes: tuple, length: int) -> dict:
    return step_here(None, list(sizes), length, "cpu")


def compare_policy(student, saved, sizes, length, place, steps=2):
    with case(f"With saved={{{', '.join(map(repr, saved))}}}, two blocks and {counted(steps, 'step')} on {place}"):
        run = student.run(run_policy, list(saved), list(sizes), length, place, steps)
        right = step_without_recomputation(tuple(sizes), length)
        same = [float(run["loss"]), *run["gradients"]], [right["loss"], *right["gradients"]]
        need(
            all(np.allclose(mine, theirs, rtol=1e-3, atol=1e-5) for mine, theirs in zip(*same, strict=True)),
            "the loss or the gradients differ from those without recomputation.",
        )
        need(not run["changed"], "contexts has changed `saved`. Work on a copy: the caller may need it again.")
        if not run["watched"]:
            return
        need_devices(student)
        mine = costs(run)
        wanted = costs(step_here(contexts_of(saved), list(sizes), length, place))
        if not alike_costs(mine, wanted):
            why = why_policy(mine, saved, sizes, length, place)
            need(
                False,
                f"the last step performs {mine[0]:,} operations, computes for {mine[1] * 1e6:.1f} us and holds "
                f"{mine[2]:,} bytes after the forward pass, but these should be {wanted[0]:,}, "
                f"{wanted[1] * 1e6:.1f} us and {wanted[2]:,} bytes. {why}",
            )


def costs(step: dict) -> tuple[int, float, int]:
    return step["flops"], step["busy"], step["held"]


def alike_costs(mine, theirs) -> bool:
    return mine[0] == theirs[0] and math.isclose(mine[1], theirs[1], rel_tol=0.005) and abs(mine[2] - theirs[2]) < 8192


def why_policy(mine, saved, sizes, length, place) -> str:
    everything = partial(create_selective_checkpoint_contexts, lambda *_, **__: True)
    inverted = partial(create_selective_checkpoint_contexts, lambda _, operator, *__, **___: str(operator) not in saved)
    for words, context_fn in (
        ("Nothing is saved: all operators run again.", contexts_of(())),
        ("Everything is saved: no operator runs again.", everything),
        ("The operators in saved run again, and the others are saved.", inverted),
        ("Nothing is recomputed.", None),
        ("The products are saved, whatever `saved` contains.", contexts_of(("aten.mm.default",))),
    ):
        if alike_costs(mine, costs(step_here(context_fn, list(sizes), length, place))):
            return words
    wanted = costs(step_here(contexts_of(saved), list(sizes), length, place))
    return (
        "Operators that should not run again do." if mine[1] > wanted[1] else "Operators that should run again do not."
    )


@ex3.fact("with contexts, gradients match those without recomputation")
def _(student):
    compare_policy(student, CHOICES["the products"], CHECKED, LENGTH, "cpu")


@ex3.fact("the operators in saved run once, and the others run again (checked on simulated devices)")
def _(student):
    for saved in CHOICES.values():
        compare_policy(student, saved, CHECKED, LENGTH, student.devices[0])


# --- ex4: a step in float16 -----------------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=3,
    title="A step in float16",
    hints=[
        "Which of these belong inside torch.autocast: the forward pass, the loss, the backward pass, the update?",
        "The scaler multiplies the loss. So which factor do all gradients have when backward() returns?",
        "clip_grad_norm_ compares a norm with `clip`. Which gradients does `clip` refer to?",
        "Print scaler.get_scale() after each step, with a first scale of 2.0**40. What should happen to it?",
    ],
    likely={
        "unscale_() has already been called": "Are the gradients unscaled once in each step, and does the step end?",
        "unscale_() is being called after step()": "Is the scaler told that each step has ended?",
        "is non-finite, so it cannot be clipped": "A step may overflow. The scaler skips its update.",
        "Attempting to unscale FP16 gradients": "Does the model still have float32 weights?",
        "No inf checks were recorded": "Does the optimizer hold this model's gradients when the scaler steps?",
        "must have the same dtype": "Does autocast cover the forward pass, and do the weights stay float32?",
        "expected m1 and m2 to have the same dtype": "Does autocast cover the forward pass?",
    },
)

STACK = [["Linear", 12, 24], ["GELU"], ["Linear", 24, 6]]
ALIKE = 0.02  # relative: what float16 may change in a weight's path
EXACT = 2e-5  # relative: a loss in float32, on any device
LARGE = 3e4  # a factor for weights, with which logits fit float16 and their differences do not


def run_mixed(lab, stack, place, kind, seed, rows, steps, scale, clip, rate, shrink, junk, flood):
    """What each step returns, the weights after each, and the precision of the passes.

    `flood` is the number of a step whose inputs are 1000 times as large; "exact" is the loss of the model's logits.
    """
    import torch

    from utils.exercises.facts.probes import array, build, fill, kind_of, random_numbers
    from utils.kits.step import noted_precision

    model = build(stack)
    fill(model, seed)
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.copy_(parameter.data * (shrink if number == len(list(model.parameters())) - 2 else 1.0))
    model.to(place)
    notes = noted_precision(model)
    wide, classes = stack[0][1], stack[-1][2]
    x = random_numbers(seed, rows * wide).reshape(rows, wide).to(place)
    y = (torch.arange(rows) * 7 % classes).to(place)
    optimizer = torch.optim.SGD(list(model.parameters()), rate, momentum=0.5)
    scaler = torch.amp.GradScaler(kind, init_scale=scale)
    if junk:
        for parameter in model.parameters():
            parameter.grad = torch.ones(parameter.shape).to(place)
    logits = []
    model.register_forward_hook(lambda _, __, output: logits.append(output.detach().float().cpu()))
    losses, scales, weights = [], [], []
    for number in range(1, steps + 1):
        logits.clear()
        loss = lab.train_step(model, optimizer, scaler, 1000 * x if number == flood else x, y, clip)
        if not isinstance(loss, torch.Tensor):
            return {"wrong": f"train_step returned {kind_of(loss)}. Return the loss, a tensor."}
        exact = float(torch.nn.functional.cross_entropy(logits[-1], y.cpu())) if logits else None
        losses.append({"dtype": str(loss.dtype), "loss": array(loss.float()), "exact": exact})
        scales.append(float(torch.amp.GradScaler.get_scale(scaler)))
        weights.append([array(p.clone().float()) for p in model.parameters()])
    return {
        "losses": losses,
        "scales": scales,
        "weights": weights,
        "dtypes": sorted({str(p.dtype) for p in model.parameters()}),
        "forward": sorted({dtype for way, dtype in notes if way == "forward"}),
        "backward": sorted({on for way, on in notes if way == "backward"}),
    }


def float32_steps(stack, seed, rows, steps, clip, rate, shrink, older=0.0):
    """(the loss of each step, the weights before the first step and after each) in float32 on the CPU.

    `older` is a number to add to each gradient.
    """
    from utils.exercises.facts.probes import random_numbers

    model = build(stack)
    fill(model, seed)
    with torch.no_grad():
        list(model.parameters())[-2].mul_(shrink)
    wide, classes = stack[0][1], stack[-1][2]
    x = random_numbers(seed, rows * wide).reshape(rows, wide)
    y = torch.arange(rows) * 7 % classes
    optimizer = torch.optim.SGD(model.parameters(), rate, momentum=0.5)
    losses, weights = [], [[p.detach().numpy().copy() for p in model.parameters()]]
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for parameter in model.parameters():
            parameter.grad = torch.from_numpy(gradient_of(parameter) + older)
        nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        losses.append(loss.item())
        weights.append([p.detach().numpy().copy() for p in model.parameters()])
    return losses, weights


def apart(mine: Sequence[np.ndarray], start: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> float:
    """How far updates are from the right ones, relative to these: the largest of all parameters."""
    return max(
        float(np.linalg.norm(each - wanted) / np.linalg.norm(wanted - first))
        for each, first, wanted in zip(mine, start, right, strict=True)
    )


def share_of(difference: float) -> str:
    return f"by {difference:.0%}" if difference < 10 else "more than tenfold"


def length_of(after, before) -> float:
    return math.sqrt(sum(float(np.sum((one - other) ** 2)) for one, other in zip(after, before, strict=True)))


def why_update(mine, start, first, stale, scale) -> str:
    """The likeliest mistake in the first update; `stale` are the weights if older gradients count."""
    for dtype in (torch.float16, torch.bfloat16):
        if all(np.array_equal(each, torch.from_numpy(each).to(dtype).float().numpy()) for each in mine):
            return f"The weights are rounded to {dtype}."
    if apart(mine, start, first) <= ALIKE:
        return "The first update is right, and later ones are not. Is each step independent of earlier gradients?"
    if stale is not None and apart(mine, start, stale) <= ALIKE:
        return "The first update also uses gradients from before the call."
    share = length_of(mine, start) / length_of(first, start)
    if share == 0:
        return "The first step does not change the weights."
    if math.isclose(share, scale, rel_tol=0.05):
        return "The first update is too large by a factor of the scale."
    if math.isclose(share, 1 / scale, rel_tol=0.05):
        return "The first update is too small by a factor of the scale."
    if apart(mine[2:], start[2:], first[2:]) <= ALIKE:
        return "Only the updates of the first layer, whose gradients are the smallest, differ."
    return f"The first update is {share:.3g} times as long as in float32."


def ask_mixed(
    student,
    place,
    *,
    seed=1,
    rows=32,
    steps=4,
    scale=1024.0,
    clip=0.05,
    rate=0.2,
    shrink=1.0,
    junk=False,
    flood=0,
    stack=STACK,
):
    kind = place.split(":")[0]
    run = student.run(run_mixed, stack, place, kind, seed, rows, steps, scale, clip, rate, shrink, junk, flood)
    need("wrong" not in run, run.get("wrong", ""))
    for number, mine in enumerate(run["losses"], 1):
        shape = mine["loss"].shape
        need(mine["loss"].size == 1, f"train_step returned a tensor of shape {shape}. Return the loss, one number.")
        mine["loss"] = float(mine["loss"].reshape(()))
        finite = all(np.isfinite(each).all() for each in run["weights"][number - 1])
        need(finite, f"after step {number}, some weights are nan or inf.")
    return run


def with_scale(scale, steps, clip, place, more=""):
    told = f"With a first scale of 2**{math.log2(scale):.0f}, clip={clip:g} and {counted(steps, 'step')} on {place}"
    return case(told + more)


def compare_mixed(
    student, place, *, seed=1, rows=32, steps=4, scale=1024.0, clip=0.05, rate=0.2, shrink=1.0, junk=False, stack=STACK
):
    given = {"stack": stack, "seed": seed, "rows": rows, "steps": steps, "clip": clip, "rate": rate, "shrink": shrink}
    more = f", the last layer's weights times {shrink:g}" if shrink != 1 else ""
    with with_scale(scale, steps, clip, place, more):
        run = ask_mixed(student, place, scale=scale, junk=junk, **given)
        losses, weights = float32_steps(**given)
        need_losses(run["losses"], losses[0], scale, rows)
        found = apart(run["weights"][-1], weights[0], weights[-1])
        if not found <= ALIKE:
            stale = float32_steps(**given | {"steps": 1}, older=1 / scale)[1][1] if junk else None
            why = why_update(run["weights"][0], weights[0], weights[1], stale, scale)
            need(
                False,
                f"after {counted(steps, 'step')}, the updates of the weights differ {share_of(found)} from those in "
                f"float32, but at most {ALIKE:.0%} is allowed. {why}",
            )


def need_losses(found, first, scale, rows):
    """Losses are right; `first` is the first one in float32."""
    mine = found[0]["loss"]
    why = "" if math.isfinite(mine) else "The logits fit into float16 here, but their differences do not."
    for words, times in (
        ("That is the scaled loss.", scale),
        ("That is the sum over the batch; cross-entropy is the mean.", rows),
    ):
        why = why or (words if math.isclose(mine, first * times, rel_tol=0.05) else "")
    need(
        math.isclose(mine, first, rel_tol=0.01),
        f"the first loss is {mine:.4g}, but in float32 it is {first:.4g}. {why}",
    )
    for number, each in enumerate(found, 1):
        exact = each["exact"]
        if exact is not None and math.isfinite(exact):
            need(
                math.isclose(each["loss"], exact, rel_tol=EXACT),
                f"the loss of step {number} is {each['loss']:.7g}, but the cross-entropy of the logits is {exact:.7g} "
                "in float32. Is each part of it computed in float32?",
            )


@ex4.fact(
    "linear layers compute in float16, weights and the loss are float32, and autocast is off in the backward pass"
)
def _(student):
    for place in (student.devices[0], "cpu"):
        with with_scale(1024.0, 4, 0.05, place):
            need_precision(ask_mixed(student, place))


def need_precision(run):
    need(
        run["dtypes"] == ["torch.float32"],
        f"the weights are {' and '.join(run['dtypes'])}. They must stay float32, because small updates are lost with "
        f"fewer bits.",
    )
    need(
        run["forward"] == ["torch.float16"],
        f"linear layers return {' and '.join(run['forward']) or 'nothing'}, but they should compute in float16.",
    )
    dtypes = sorted({each["dtype"] for each in run["losses"]})
    need(dtypes == ["torch.float32"], f"the loss is {' and '.join(dtypes)}, but it should be computed in float32.")
    need(
        run["backward"] == ["off"],
        "the backward pass runs with autocast on. Without it, each operator keeps the dtype of its forward pass.",
    )


@ex4.fact("losses and weights match those of float32, with clipped gradients")
def _(student):
    compare_mixed(student, student.devices[0])
    compare_mixed(student, student.devices[0], clip=1e9, seed=2, scale=256.0)
    compare_mixed(student, student.devices[0], steps=1, scale=1.0, clip=1e9, shrink=LARGE)


@ex4.fact("gradients that are too small for float16 are not lost, and gradients from earlier steps do not count")
def _(student):
    compare_mixed(student, student.devices[0], clip=1e9, seed=3, steps=1, rows=512, scale=2.0**14, shrink=2e-4)
    compare_mixed(student, student.devices[0], clip=1.0, seed=4, scale=2.0, junk=True)


def need_still(number, before, after):
    still = all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    need(still, f"step {number} overflows, but still changes the weights.")


def need_survival(student, place, *, seed=5, scale=2.0**40, steps=40, clip=0.5):
    with with_scale(scale, steps, clip, place):
        run = ask_mixed(student, place, seed=seed, scale=scale, steps=steps, clip=clip)
        _, weights = float32_steps(STACK, seed, 32, steps, clip, 0.2, 1.0)
        before = weights[0], scale
        for number, after in enumerate(zip(run["weights"], run["scales"], strict=True), 1):
            if number == 1 or after[1] < before[1]:
                need_still(number, before[0], after[0])
            before = after
        first = run["scales"][0]
        need(
            first == scale / 2,
            f"the first step overflows. After it, the scale is {first:,.0f}, but should be {scale / 2:,.0f}.",
        )
        skipped = round(math.log2(scale / run["scales"][-1]))
        need(
            0 < skipped < steps,
            f"after {steps} steps the scale is {run['scales'][-1]:,.0f}: the steps overflow until the end.",
        )
        found = apart(run["weights"][-1], weights[0], weights[steps - skipped])
        need(
            found <= ALIKE,
            f"{skipped} of {steps} steps overflow, but the weights are not those of {steps - skipped} float32 steps.",
        )


def need_flood_survived(student, place, *, seed=6, scale=2.0**12, steps=6, flood=4, clip=0.5):
    with with_scale(scale, steps, clip, place, f", inputs 1000 times as large in step {flood}"):
        run = ask_mixed(student, place, seed=seed, scale=scale, steps=steps, clip=clip, flood=flood)
        need_still(flood, *run["weights"][flood - 2 : flood])
        before, after = run["scales"][flood - 2 : flood]
        need(
            after == before / 2,
            f"step {flood} overflows. After it, the scale is {after:,.0f}, but should be {before / 2:,.0f}.",
        )
        weights = float32_steps(STACK, seed, 32, steps - 1, clip, 0.2, 1.0)[1]
        need(
            apart(run["weights"][-1], weights[0], weights[-1]) <= ALIKE,
            f"step {flood} overflows, but after all {steps} the weights are not those of {steps - 1} float32 steps.",
        )


@ex4.fact("a step that overflows is skipped and halves the scale, and training continues")
def _(student):
    need_survival(student, student.devices[0])
    need_flood_survived(student, student.devices[0])
