"""The facts of lesson 07's tasks: bytes that are counted by hand here, and blocks of a GPT on two devices."""

import math

import numpy as np

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson07", "Choose the cut")

kept_by = lab.exercise(
    "kept_by",
    points=0,
    title="Count what backward keeps",
    hints=[
        "saved_tensors_hooks takes two functions. PyTorch calls the first with each tensor that it saves. Record the "
        "tensor's size there, and return the tensor.",
        "Two tensors that share memory have the same untyped_storage().data_ptr().",
        "Keep a set of the addresses that you have counted. What belongs in it before the first layer runs?",
        "To tell the layers apart, run each in its own with block, on the previous layer's output.",
    ],
)

LINEARS = [["Linear", 6, 8], ["Tanh"], ["Linear", 8, 4]]
IMAGES = [["Conv2d", 3, 4, 3], ["BatchNorm2d", 4], ["ReLU"], ["MaxPool2d", 2], ["Flatten"], ["Linear", 16, 5]]
DEEP = [["Linear", 64, 64], ["Tanh"]] * 12


def ask_kept(lab, stack, frozen, dtype, shape):
    import torch

    from utils.exercises.facts.probes import build, kind_of

    layers = build(stack)
    if dtype == "float64":
        layers.double()
    for number in frozen:
        layers[number].requires_grad_(False)
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    found = lab.kept_by(layers, x)
    if not isinstance(found, (list, tuple)):
        return kind_of(found)
    for size in found:
        if isinstance(size, bool) or not hasattr(size, "__index__"):
            return f"a list with {kind_of(size)} in it"
    return [int(size) for size in found]


def compare(student, stack, shape, right, *, frozen=(), dtype="float32", why):
    kinds = ", ".join(kind for kind, *_ in stack)
    with case(f"For {kinds} and x of shape {shape} ({dtype}){', the first layer frozen' if frozen else ''}"):
        found = student.run(ask_kept, stack, list(frozen), dtype, list(shape))
        need(not isinstance(found, str), f"kept_by returned {found}. Return a list of whole numbers.")
        need(len(found) == len(stack), f"the list has {len(found)} numbers, but there are {len(stack)} layers.")
        weights = [math.prod(sizes) * np.dtype(dtype).itemsize for _, *sizes in stack]
        counted = [n for n, (mine, is_) in enumerate(zip(found, right, strict=True)) if mine - is_ == weights[n] > 0]
        if counted:
            why = f"layer {counted[0]} includes {weights[counted[0]]} bytes for its weight, which is in memory anyway."
        need(np.array_equal(found, right), f"kept_by returned {found} instead of {right}: {why}")


@kept_by.fact("memory that two layers save counts once, for the first layer, and weights do not count")
def _(student):
    why = "a Linear keeps its input, and a Tanh keeps its output, which is the next Linear's input."
    compare(student, LINEARS, (5, 6), [5 * 6 * 4, 5 * 8 * 4, 0], why=why)


@kept_by.fact("a view does not count again, because it shares the original tensor's memory")
def _(student):
    normed, small = 2 * 4 * 4 * 4 * 4, 2 * 4 * 2 * 2
    right = [2 * 3 * 6 * 6 * 4, normed + 2 * 4 * 4, normed, small * 8, 0, small * 4]
    why = "BatchNorm keeps its input, and a mean and a deviation per channel; MaxPool keeps the maxima's positions."
    compare(student, IMAGES, (2, 3, 6, 6), right, why=why)


@kept_by.fact("the same holds for float64, and a frozen first layer keeps nothing")
def _(student):
    why = "each number takes eight bytes."
    compare(student, LINEARS, (3, 6), [3 * 6 * 8, 3 * 8 * 8, 0], dtype="float64", why=why)
    why = "only the last layer keeps anything: its input."
    compare(student, LINEARS, (5, 6), [0, 0, 5 * 8 * 4], frozen=(0,), why=why)


@kept_by.fact("the same holds for many layers, where freed memory is soon reused")
def _(student):
    for rows in (256, 40, 1000):  # whether freed memory is reused is the allocator's choice: blocks of three sizes
        found = student.run(ask_kept, DEEP, [], "float32", [rows, 64])
        total, right = found if isinstance(found, str) else sum(found), (len(DEEP) // 2 + 1) * rows * 64 * 4
        need(
            total == right,
            f"For {len(DEEP) // 2} times Linear, Tanh, your numbers add up to {total}, but {right} bytes are kept. An "
            "address tells two tensors apart only while both exist. Do you keep the tensors that you have counted?",
        )


# --- the blocks of a GPT on two devices ----------------------------------------------------------------------------

run_blocks = lab.exercise(
    "run_blocks",
    points=0,
    title="A Transformer's blocks on two devices",
    hints=[
        "GPT.forward has the loop: for block in self.blocks: x = block(x, cos, sin). What changes at block number "
        "`cut`?",
        "Slice cos and sin to x.shape[1] tokens, the second of x's three sizes.",
        "Once, before block number `cut`: x, cos, sin = x.to(device1), cos.to(device1), sin.to(device1).",
    ],
)


def run_on_one(lab, cut, tokens):
    from utils.exercises.tasks.lesson07 import blocks

    return blocks.run_on_one(lab.run_blocks, cut, tokens)


def run_on_two(lab, device0, device1, cuts):
    from utils.exercises.tasks.lesson07 import blocks

    return blocks.run_on_two(lab.run_blocks, device0, device1, cuts)


def copies_of_a_run(lab, device0, device1, cut):
    from utils.exercises.tasks.lesson07 import blocks

    return blocks.copies_of_a_run(lab.run_blocks, device0, device1, cut)


@run_blocks.fact("its output and x's gradient equal those of the model's own loop, for few tokens and for many")
def _(student):
    for cut, tokens in ((1, 5), (2, 32)):
        with case(f"With 3 blocks, cut {cut} and {tokens} tokens, both devices the CPU"):
            seen = student.run(run_on_one, cut, tokens)
            need("output" in seen, f"run_blocks returned {seen.get('kind')}. Return the last block's output.")
            found, right = seen["output"], seen["right"]
            need(found.shape == right.shape, f"the output has shape {found.shape}, but should have {right.shape}.")
            need(
                np.allclose(found, right, rtol=1e-4, atol=1e-4), "the output differs from that of the model's own loop."
            )
            need(seen["mine"] is not None, "x gets no gradient: something cuts the autograd graph. Use only .to.")
            need(
                np.allclose(seen["mine"], seen["gradient"], rtol=1e-3, atol=1e-3),
                "x's gradient differs from that of the model's own loop.",
            )


@run_blocks.fact(
    "blocks and output are on the right devices, after a second cut too, and the model's tables do not move"
)
def _(student):
    device0, device1 = student.devices
    cuts = [2, 1, 2]
    with case("With 3 blocks, x from the CPU, called with the cuts 2, 1 and 2"):
        seen = student.run(run_on_two, device0, device1, cuts)
        for cut, (output, blocks, tables) in zip(cuts, seen, strict=True):
            right = [device0] * cut + [device1] * (3 - cut)
            need(
                blocks == right,
                f"after cut {cut}, the blocks are on {', '.join(blocks)}, but should be on {', '.join(right)}.",
            )
            need(output == device1, f"the output is on {output}, but the last block runs on {device1}.")
            need(tables == device0, f"model.cos is now on {tables}. Move only the slice that you took from it.")


@run_blocks.fact("x, cos and sin cross once")
def _(student):
    for cut in (1, 3):
        with case(f"With 4 blocks, cut {cut} and x on the first device"):
            crossed, tables = student.run(copies_of_a_run, *student.devices, cut), 5 * 4 * 4
            need(
                max(crossed, default=0) <= 2 * 5 * 16 * 4,
                f"one copy has {max(crossed, default=0)} bytes, more than x has. Do blocks move on every call?",
            )
            need(
                crossed.count(32 * 4 * 4) == 0 or tables in crossed,
                "the tables of all 32 positions cross. Slice them to x's 5 tokens first.",
            )
            need(
                len(crossed) == 3,
                f"{len(crossed)} tensors are copied between devices. Copy three, at the cut: x, cos and sin.",
            )
