"""The facts about lesson 15's tasks: model FLOPs utilization, a step's ledger, a policy for recomputation."""

from __future__ import annotations

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson15", "What a step costs, and what it could")

# --- MFU ------------------------------------------------------------------------------------------------------------

utilization = lab.exercise(
    "mfu",
    points=0,
    title="Model FLOPs utilization",
    hints=[
        "First the operations for one token: those of the weights, then those of attention.",
        "Operations per token times tokens per second are operations per second. Divide by the peak.",
    ],
)
TITAN = (7.5e9, 32, 4096, 8192, 5762, 989e12)  # about Llama 3.1 8B
SMALL = (124e6, 12, 768, 1024, 178_000, 312e12)  # about GPT-2


def by_formula(weights, layers, hidden, length, speed, peak, *, each=6.0, attention=12.0):
    return (each * weights + attention * layers * hidden * length) * speed / peak


def why_another(found, given):
    mistakes = {
        "Does that leave out attention?": {"attention": 0.0},
        "A training step has a backward pass, too: 6 operations for each weight and token, not 2.": {"each": 2.0},
        "Attention's backward pass counts, too: 12 operations, not 4.": {"attention": 4.0},
        "The backward pass counts, too: three times the operations of the forward pass.": {
            "each": 2.0,
            "attention": 4.0,
        },
        "By convention, the causal mask does not halve attention's operations: 12, not 6.": {"attention": 6.0},
        "Recomputation does not count: 6 operations for each weight and token, not 8.": {"each": 8.0},
    }
    for words, mistake in mistakes.items():
        if abs(found / by_formula(*given, **mistake) - 1) < 1e-6:
            return " " + words
    return " Return a share, not a percentage." if abs(found / by_formula(*given) - 100) < 1e-3 else ""


def run_mfu(lab, given):
    from utils.exercises.facts.probes import kind_of

    found = lab.mfu(*given)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else kind_of(found)


def compare_mfu(student, given):
    found, right = student.run(run_mfu, given), by_formula(*given)
    names = ("weights", "layers", "hidden", "length", "tokens_per_second", "peak")
    with case("With " + ", ".join(f"{name}={value:g}" for name, value in zip(names, given, strict=True))):
        need(not isinstance(found, str), f"it returned {found}. Return a number.")
        need(
            abs(found / right - 1) < 1e-3,
            f"the GPU reaches {right:.1%} of its peak, but you returned {found:.4g}.{why_another(found, given)}",
        )


@utilization.fact("it is the model's operations per second over the peak")
def _(student):
    compare_mfu(student, TITAN)


@utilization.fact("the same holds for a smaller model on another GPU")
def _(student):
    compare_mfu(student, SMALL)


# --- the ledger -----------------------------------------------------------------------------------------------------

books = lab.exercise(
    "ledger",
    points=0,
    title="A ledger of the step",
    hints=[
        'A loop over timeline.events. event.name == "mm" is a matrix product; "attention" in event.name is attention.',
        "At the peak, a product would take event.flops / peak seconds. The rest of its time is below the peak.",
        "Kernels follow one another here: the idle time is timeline.span minus the sum of all other entries.",
    ],
)
ENTRIES = ("products at peak", "products below peak", "attention", "other kernels", "idle")
# name, seconds, operations, idle seconds after it
STEP = [
    ("native_layer_norm", 0.5, 0, 0.0),
    ("mm", 4.0, 300, 0.25),
    ("attention", 2.0, 80, 0.0),
    ("mm", 3.0, 200, 0.0),
    ("attention_backward", 3.0, 160, 0.5),
    ("_fused_adamw_", 1.5, 0, 0.0),
]
WITHOUT_IDLE = [("mm", 2.0, 90, 0.0), ("silu", 1.0, 0, 0.0), ("attention", 4.0, 100, 0.0)]


def entries_of(step, peak):
    products = [(seconds, flops) for name, seconds, flops, _ in step if name == "mm"]
    at_peak = sum(flops for _, flops in products) / peak
    attention = sum(seconds for name, seconds, _, _ in step if "attention" in name)
    kernels = sum(seconds for _, seconds, _, _ in step)
    below = sum(seconds for seconds, _ in products) - at_peak
    rest = kernels - at_peak - below - attention
    return dict(zip(ENTRIES, (at_peak, below, attention, rest, sum(idle for *_, idle in step)), strict=True))


def run_ledger(lab, step, peak):
    from utils.exercises.facts.probes import kind_of
    from utils.exercises.tasks.lesson15.measured import timeline_of

    found = lab.ledger(timeline_of(step), peak)
    if not isinstance(found, dict):
        return kind_of(found)
    return {str(name): float(value) for name, value in found.items()}


def compare_ledger(student, step, peak):
    found, right = student.run(run_ledger, step, peak), entries_of(step, peak)
    kernels = ", ".join(f"{name} ({seconds} s, {flops} operations)" for name, seconds, flops, _ in step)
    with case(f"With a peak of {peak} operations per second and the kernels {kernels}"):
        need(not isinstance(found, str), f"it returned {found}. Return a dict.")
        need(set(found) == set(ENTRIES), f"the keys are {sorted(found)}. Return the keys {sorted(ENTRIES)}.")
        for name, seconds in right.items():
            need(abs(found[name] - seconds) < 1e-9, f"{name!r} is {seconds:g} s, but you returned {found[name]:.6g} s.")


@books.fact("its five entries are right, and add up to the step")
def _(student):
    compare_ledger(student, STEP, 100)


@books.fact("the same holds for another step and another peak")
def _(student):
    compare_ledger(student, WITHOUT_IDLE, 60)


# --- a policy for recomputation -------------------------------------------------------------------------------------

recomputing = lab.exercise(
    "policy",
    points=0,
    title="A policy for recomputation",
    hints=[
        "The backward pass reads the inputs of down, and not its output. So recomputation stops before down, and "
        "keeping its output saves no time.",
        'Of the others, attention takes longest for each byte: keep it. "attention" in str(op) finds it.',
        "op is torch.ops.aten.mm.default for a matrix product. args[1].shape is (inputs, outputs).",
        "gate and up take 7 bytes each, which is too much beside attention. So keep products with 4096 inputs and at "
        "most 4096 outputs: q, k, v and o.",
    ],
)
CAP = 10  # bytes per element of the layer's input
SLACK = 1.005


def run_policy(lab):
    from utils.exercises.tasks.lesson15.measured import block_with_policy
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(1, block_with_policy, lab.policy, gpu="H100", compute=False)[0]


def best():
    from utils.exercises.tasks.lesson15.measured import block_with_policy
    from utils.exercises.tasks.lesson15.worked import policy
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(1, block_with_policy, policy, gpu="H100", compute=False)[0]["seconds"]


@recomputing.fact("a layer keeps at most 10 bytes per element of its input")
def _(student):
    kept = student.run(run_policy)["kept"]
    need(kept <= CAP, f"your policy keeps {kept:.1f} bytes per element of the layer's input, which itself takes 2.")


@recomputing.fact("no policy with so few bytes takes less time")
def _(student):
    found, least = student.run(run_policy)["seconds"], best()
    need(
        found <= SLACK * least,
        f"a layer takes {found * 1e3:.2f} ms on the simulated clock, but {least * 1e3:.2f} ms are possible. What else "
        "takes long to recompute for each byte, and still fits?",
    )
