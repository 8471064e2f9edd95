"""Lab 15's hidden facts, judged by the grader after the visible ones. Students do not get this file.

They ask what a right answer does anyway and a lucky one does not: other models, blocks, tables, scales and devices.
"""

import random

from utils.exercises.facts import visible

seen = visible("lab15")
lab = seen.lab


@seen.ex1.fact("mfu and hfu are also right for other models, GPUs and dtypes")
def _(student):
    other = {**seen.GROUPED, "num_hidden_layers": 9, "num_attention_heads": 64, "num_key_value_heads": 1}
    for torch_dtype, seconds in (("bfloat16", 0.45), ("float8_e4m3fn", 0.3), ("float32", 7.5)):
        config = {**other, "torch_dtype": torch_dtype}
        seen.compare_utilization(student, "mfu", config, 48, 3000, seconds, 12, seen.H100)
        seen.compare_utilization(student, "hfu", config, 48, 3000, seconds, 12, seen.H100, 5)
    tied = {**seen.TIED, "num_key_value_heads": 4, "vocab_size": 256_000}
    seen.compare_utilization(student, "mfu", tied, 5, 700, 0.7, 3, seen.A100)
    seen.compare_utilization(student, "hfu", tied, 5, 700, 0.7, 3, seen.A100, 1)


@seen.ex2.fact("kept_bytes is also right for other blocks, frozen weights and swapped devices")
def _(student):
    device0, device1 = student.devices
    stack = [["Linear", 12, 40], ["SiLU"], ["Linear", 40, 40], ["Tanh"], ["LayerNorm", 40], ["Linear", 40, 3]]
    seen.compare_kept(student, "stack", stack, (9, 12), "bfloat16")
    seen.compare_kept(student, "stack", stack, (9, 12), "float32", "cpu", 3)
    seen.compare_kept(student, "block", [48, 6, 1, 80], (1, 30, 48), "float32", device1)
    seen.compare_kept(student, "unfused block", [48, 6, 3, 80], (3, 7, 48), "bfloat16")
    seen.compare_kept(student, "recomputed block", [48, 6, 3, 80], (3, 7, 48), "bfloat16", device0)
    seen.compare_kept(student, "head", [24, 9], (2, 50, 24), "bfloat16", device1)
    seen.compare_kept(student, "stack", stack, (40, 12))
    seen.compare_kept(student, "chunked gate", [16, 24], (5, 16))
    seen.need_left_alone(student, "recomputed block", [16, 2, 1, 32], (1, 4, 16), frozen=2, mode="evaluation")


@seen.ex3.fact("choose is also right for other tables")
def _(student):
    pairs = {"aten.mm": (34, 4.0), "aten.bmm": (33, 3.85), "aten.gelu": (50, 5.5), "aten.silu": (50, 5.5)}
    table = seen.table_of({f"{name}.default": cost for name, cost in pairs.items()})
    seen.compare_choice(student, table, 100)
    chance = random.Random(7)
    names = ["mm.default", "bmm.default", "gelu.default", "add.Tensor", "mul.Tensor", "silu.default", "cat.default"]
    for count in (1, 3, 5, 6, 7, 7, 7):
        table = {
            f"aten.{name}": {"bytes": chance.randrange(5, 90), "seconds": chance.randrange(1, 90) / 10}
            for name in chance.sample(names, count)
        }
        seen.compare_choice(student, table, chance.randrange(20, 60 * count))
    seen.compare_choice(student, seen.table_of(seen.SHORT), 5)
    kinds = ["relu", "tanh", "exp", "mean", "sum"]
    table = {
        f"aten.{name}": {"bytes": chance.randrange(5, 90), "seconds": chance.randrange(1, 90) / 10}
        for name in (*names, *(f"{kind}.default" for kind in kinds))
    }
    seen.compare_choice(student, table, sum(each["bytes"] for each in table.values()) * 9 // 10)


@seen.ex3.fact("contexts is also right with other operators, with none and with all, and on the other device")
def _(student):
    sizes = [48, 6, 3, 96]
    for saved in (
        ["aten.silu.default"],
        ["aten.mm.default", "aten.native_layer_norm.default", "aten.bmm.default"],
        ["aten.bmm.default"],
        ["aten.mul.Scalar"],
        [],
    ):
        seen.compare_policy(student, saved, sizes, 17, student.devices[1], steps=3)


@seen.ex4.fact(
    "the step is also right with another model, on the CPU and on the other device, and survives a larger scale there"
)
def _(student):
    more_classes = [["Linear", 12, 32], ["GELU"], ["Linear", 32, 9]]
    seen.compare_mixed(student, "cpu", seed=8, steps=6, rows=20, stack=more_classes)
    seen.compare_mixed(student, student.devices[1], seed=9, steps=3, clip=0.2, scale=4.0, junk=True)
    seen.compare_mixed(student, "cpu", seed=3, steps=1, scale=1.0, clip=1e9, shrink=seen.LARGE)
    seen.need_flood_survived(student, "cpu", seed=11, steps=8, flood=6, clip=1e9)
    seen.need_survival(student, "cpu", seed=10, scale=2.0**45, steps=45, clip=1e9)
