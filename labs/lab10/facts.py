"""Lab 10's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. Lists of actions are strings, a
schedule's lines without their ranks. What is right is computed from PyTorch's own backward pass, and what a schedule
takes by `utils.schedules`.
"""

import math
from contextlib import contextmanager
from itertools import groupby, pairwise
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn

from simgpu.profiles import LINKS
from utils.exercises.facts import Lab, StudentError, Unmet, case, need, visible
from utils.exercises.facts.probes import build, fill
from utils.exercises.facts.reference import need_devices
from utils.observe.trace import Event
from utils.schedules import Action, Costs, Schedule, gpipe, interleaved_1f1b, mistake, one_f_one_b, play, run

lab = Lab("lab10", "Build a schedule")
lesson = visible("lesson08")
same, numbers, times = lesson.same, lesson.numbers, lesson.times

AT_ALL = {"rtol": 1e-4, "atol": 1e-5}


def lines(schedule) -> list[str]:
    """A schedule as the lab writes it: a string for each rank."""
    return [" ".join(map(str, row)) for row in schedule.lists]


def close(mine, theirs) -> bool:
    return mine is not None and mine.shape == theirs.shape and np.allclose(mine, theirs, **AT_ALL)


# --- ex1: one stage -------------------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=2,
    title="One stage, cut off from the others",
    hints=[
        "The stage's graph begins at `received`. Which tensor must require a gradient, and before which call?",
        "Two tensors have the output's values: one has a graph, and the other has none. Which one do you send, and "
        "which one do you keep?",
        "Without an argument, backward() works only on a single number. Which gradient does it start from here?",
        "Up to five micro-batches are in flight, and all use these two functions. Where is the graph of each one "
        "stored?",
    ],
    likely={
        "'NoneType'": "The last stage's output is the loss. Its `gradient` is None, and backward() starts from the "
        "loss.",
        "Mismatch in shape": "This graph belongs to another micro-batch. Return each micro-batch's graph in `kept`, "
        "which the caller stores.",
    },
)

SENT = "The values of `sent` differ from those of stage(received)."
WORDS = [["Embedding", 7, 5], ["Linear", 5, 6], ["Tanh"]]  # a first stage
MIDDLE = [["Linear", 6, 9], ["Tanh"], ["Linear", 9, 4]]
LAST = [["Linear", 4, 8], ["ReLU"], ["Linear", 8, 1]]


def run_stage(lab, device, stack, seed, pieces, gradients, order):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, kind_of

    class EndsInLoss(nn.Module):
        def __init__(self, layers):
            super().__init__()
            self.layers = layers

        def forward(self, received):
            return self.layers(received).square().mean()

    stage = build(stack)
    fill(stage, seed)
    stage.to(device)
    for p in stage.parameters():
        p.grad = torch.ones_like(p)  # of the micro-batches before

    of_stage = stage if gradients else EndsInLoss(stage)
    kept, sent, returned = [], [], [None] * len(pieces)
    for piece in pieces:
        found = lab.stage_forward(of_stage, torch.from_numpy(piece).to(device))
        if not isinstance(found, (tuple, list)) or len(found) != 2:
            return {"wrong": f"stage_forward returned {kind_of(found)}. Return two values, kept and sent."}
        if not isinstance(found[1], torch.Tensor):
            return {"wrong": f"`sent` is {kind_of(found[1])}, but must be a tensor."}
        kept.append(found[0])
        sent.append([found[1].requires_grad or found[1].grad_fn is not None, str(found[1].device), array(found[1])])
    early = [None if p.grad is None else array(p.grad) for p in stage.parameters()]
    for number in order:
        gradient = torch.from_numpy(gradients[number]).to(device) if gradients else None
        found = lab.stage_backward(kept[number], gradient)
        returned[number] = array(found) if isinstance(found, torch.Tensor) else kind_of(found)
    grads = [None if p.grad is None else array(p.grad) for p in stage.parameters()]
    return {"wrong": "", "sent": sent, "early": early, "returned": returned, "gradients": grads}


def expected_stage(stack, seed, pieces, gradients):
    """What is sent and returned for each piece, and the parameters' gradients, begun with ones."""
    stage = build(stack)
    fill(stage, seed)
    sent, returned, added = [], [], [np.ones(p.shape, np.float32) for p in stage.parameters()]
    for number, piece in enumerate(pieces):
        x = torch.from_numpy(piece)
        wanted = [torch.nn.Parameter(x)] if x.is_floating_point() else []
        output = stage(*wanted or [x])
        total = (output * torch.from_numpy(gradients[number])).sum() if gradients else output.square().mean()
        found = [each.numpy() for each in torch.autograd.grad(total, [*wanted, *stage.parameters()])]
        sent.append((output if gradients else total).detach().numpy())
        returned.append(found.pop(0) if wanted else None)
        added = [before + more for before, more in zip(added, found, strict=True)]
    return sent, returned, added


def compare_stage(student, device, stack, rows, order, *, last=False, seed=3):
    """`rows` has the rows of each micro-batch; `order` that of their backward passes."""
    is_first = stack[0][0] == "Embedding"
    shapes = [(count, 4, 1) if is_first else (count, stack[0][1]) for count in rows]
    pieces = [numbers(*shape, seed=seed + n) for n, shape in enumerate(shapes)]
    if is_first:
        pieces = [(np.abs(piece[..., 0]) * 100).astype(np.int64) % stack[0][1] for piece in pieces]
    outs = [size for kind, *size in stack if kind == "Linear"][-1][1]
    gradients = [] if last else [numbers(*shape[:-1], outs, seed=seed + 10 + n) for n, shape in enumerate(shapes)]
    sent, returned, expected = expected_stage(stack, seed, pieces, gradients)
    what = "a last stage (its output is the loss)" if last else "a first stage (it receives tokens)"
    what = what if last or is_first else "a middle stage"
    backward = "" if list(order) == sorted(order) else f", run backward in the order {', '.join(map(str, order))}"
    with case(f"With {what} and {len(rows)} micro-batches{backward}"):
        run = student.run(run_stage, device, stack, seed, pieces, gradients, list(order))
        need(not run["wrong"], run["wrong"])
        for (has_graph, place, values), wanted in zip(run["sent"], sent, strict=True):
            need(close(values, wanted), SENT)
            need(
                not has_graph, "`sent` has a graph or requires a gradient. Detach it, so that you send only the values."
            )
            need(place == device, f"`sent` is on {place}. Leave it on the stage's device, {device}.")
        need(
            all(each is not None for each in run["early"]),
            "stage_forward removed gradients of the stage's parameters. These gradients come from other micro-batches. "
            "Keep them, and add to them in stage_backward.",
        )
        need(
            all((each == 1).all() for each in run["early"]),
            "stage_forward changed gradients of the stage's parameters. Only stage_backward may change them.",
        )
        need_learning(run["gradients"], expected)
        for number, (found, wanted) in enumerate(zip(run["returned"], returned, strict=True)):
            if wanted is None:
                found = found if isinstance(found, str) else "a tensor"
                need(
                    found == "None",
                    f"stage_backward returned {found}, but the stage received integers, which have no gradient. "
                    "Return None.",
                )
                continue
            need(
                not isinstance(found, str),
                f"stage_backward returned {found} instead of the gradient of `received`. The stage's input must "
                "require a gradient before the stage runs.",
            )
            if not close(found, wanted):
                given = [gradients[number]] if gradients else []
                why = why_not(found, stack, seed, pieces[number : number + 1], given)
                passes = f"{len(rows)} micro-batches were in flight. Is the graph of each one in its own `kept`?"
                need(False, f"The gradient of `received` is wrong for micro-batch {number}. {why or passes}")
        alone = [[each[number]] if each else [] for number in order[-1:] for each in (pieces, gradients)]
        compare_added(run["gradients"], expected, expected_stage(stack, seed, *alone)[2])


def why_not(found, stack, seed, pieces, gradients) -> str:
    """What a wrong gradient is instead, if that is known."""
    if not gradients:
        return ""
    if close(found, gradients[0]):
        return "You returned `gradient`, the gradient of `sent`. Return the gradient of the stage's input."
    if close(found, expected_stage(stack, seed, pieces, [np.ones_like(gradients[0])])[1][0]):
        return "Your backward pass started from a gradient of ones. Start it from the given `gradient`."
    return ""


def need_learning(found, expected):
    need(
        all(each is not None for each in found), "After stage_backward, the gradient of at least one parameter is None."
    )
    need(
        not all(close(mine, np.ones_like(right)) for mine, right in zip(found, expected, strict=True)),
        "stage_backward did not change the gradients of the stage's parameters. Does `kept` contain the output with "
        "its graph, or the detached output?",
    )


def compare_added(found, expected, last):
    """The gradients of a stage's parameters, which were ones before. `last`: those of the last backward pass alone."""
    if all(close(mine, right) for mine, right in zip(found, expected, strict=True)):
        return
    for lost, what in (
        (expected, "the gradients that they had before"),
        (last, "the gradients of earlier micro-batches"),
    ):
        need(
            not all(close(mine + 1, right) for mine, right in zip(found, lost, strict=True)),
            f"The parameters have lost {what}. Add to the existing gradients, and do not clear them.",
        )
    need(False, "The parameters' gradients are not the earlier gradients (ones) plus the sum over all micro-batches.")


@ex1.fact("a middle stage sends values without a graph, returns the gradient of `received`, and adds to its gradients")
def _(student):
    compare_stage(student, student.devices[0], MIDDLE, (3, 3), (0, 1))


@ex1.fact("the last stage starts its backward pass from the loss")
def _(student):
    compare_stage(student, student.devices[1], LAST, (3, 2), (0, 1), last=True)


@ex1.fact("a first stage accepts integers and returns no gradient for them")
def _(student):
    compare_stage(student, student.devices[0], WORDS, (2, 3), (0, 1))


def run_dropout(lab, device, seed, pieces, gradients):
    """A stage that ends with dropout, so that a zero in what is sent tells what it has dropped."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of

    stage = nn.Sequential(nn.Linear(6, 9), nn.Dropout())
    fill(stage, seed)
    stage.to(device)
    torch.manual_seed(seed)
    kept, sent, returned = [], [], [None] * len(pieces)
    for piece in pieces:
        keeps, sends = lab.stage_forward(stage, torch.from_numpy(piece).to(device))
        kept.append(keeps)
        sent.append(array(sends).copy())
    for number in reversed(range(len(pieces))):
        found = lab.stage_backward(kept[number], torch.from_numpy(gradients[number]).to(device))
        returned[number] = array(found) if isinstance(found, torch.Tensor) else kind_of(found)
    grads = [None if p.grad is None else array(p.grad) for p in stage.parameters()]
    return {"sent": sent, "returned": returned, "gradients": grads}


@ex1.fact("with dropout in the stage, the gradients belong to the values that were sent")
def _(student):
    seed, layer = 6, nn.Linear(6, 9)
    fill(layer, seed)
    weight, bias = (p.detach().numpy() for p in layer.parameters())
    pieces, gradients = ([numbers(4, width, seed=seed + width + n) for n in range(3)] for width in (6, 9))
    run = student.run(run_dropout, student.devices[0], seed, pieces, gradients)
    to_weight, to_bias = 0.0, 0.0
    for number, (sent, found, x, gradient) in enumerate(
        zip(run["sent"], run["returned"], pieces, gradients, strict=True)
    ):
        kept = sent != 0
        need(not kept.all(), "The stage's dropout drops nothing. Leave the stage in training mode.")
        need(close(sent, 2 * kept * (x @ weight.T + bias)), SENT)
        passed = 2 * kept * gradient
        for other, values in enumerate(run["sent"]):
            need(
                other == number or isinstance(found, str) or not close(found, 2 * (values != 0) * gradient @ weight),
                "Three micro-batches were in flight, and the newest ran backward first. The gradient of micro-batch "
                f"{number} went through the graph of micro-batch {other}. Keep each graph in its own `kept`.",
            )
        need(
            not isinstance(found, str) and close(found, passed @ weight),
            "The gradient of `received` does not belong to the values that were sent. Does the stage run twice? "
            "Dropout drops other values the second time.",
        )
        to_weight, to_bias = to_weight + passed.T @ x, to_bias + passed.sum(0)
    need(
        all(each is not None for each in run["gradients"]) and all(map(close, run["gradients"], (to_weight, to_bias))),
        "The parameters' gradients do not correspond to the values that were sent.",
    )


def held_by_stage(lab, device, stack, seed, received, gradient):
    """Bytes held after a backward pass beyond those before the forward pass, while `kept` is still held."""
    import torch

    from utils.exercises.facts.probes import array, build, fill
    from utils.observe.devices import is_simulated

    if not is_simulated(device):
        return {"watched": False}
    gpu = torch.get_device_module(device)
    stage = build(stack)
    fill(stage, seed)
    stage.to(device)
    for p in stage.parameters():
        p.grad = torch.zeros_like(p)
    received, gradient = torch.from_numpy(received).to(device), torch.from_numpy(gradient).to(device)
    before = gpu.memory_allocated(device)
    kept, sent = lab.stage_forward(stage, received)
    returned = lab.stage_backward(kept, gradient)
    held = gpu.memory_allocated(device) - before
    return {"watched": True, "held": held, "sent": array(sent), "returned": array(returned)}


@ex1.fact("no activations are held after the backward pass (checked on simulated devices only)")
def _(student):
    rows, width, seed = 32, 10_000, 4
    stack = [["Linear", 8, width], ["Tanh"], ["Linear", width, 8]]
    received, gradient = numbers(rows, 8, seed=1), numbers(rows, 8, seed=2)
    run = student.run(held_by_stage, student.devices[0], stack, seed, received, gradient)
    if not run["watched"]:
        return
    need(
        run["held"] < rows * width * 4,
        f"After stage_backward, {run['held'] / 1e6:.1f} MB are still held. The activation of one layer takes "
        f"{rows * width * 4 / 1e6:.1f} MB. Does backward() keep the graph (retain_graph=True)?",
    )
    sent, returned, _ = expected_stage(stack, seed, [received], [gradient])
    with case(f"With {width} features in the stage"):
        need(close(run["sent"], sent[0]), SENT)
        need(close(run["returned"], returned[0]), "The gradient of `received` is wrong.")


# --- ex2: 1F1B ------------------------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="The lists of 1F1B, under a cap",
    hints=[
        "First write the lists for 3 ranks and 4 micro-batches by hand, beginning with the last rank.",
        "Count the forward and the backward passes that a rank has run so far. How many micro-batches are in flight?",
        "At some points, a rank cannot run a forward pass next. What are the two possible reasons?",
    ],
)


def ask_list(lab, rank, ranks, micro_batches, cap):
    from utils.exercises.facts.probes import kind_of

    found = lab.one_f_one_b(rank, ranks, micro_batches, cap)
    return str(found) if isinstance(found, str) else [kind_of(found)]


def parsed(text) -> list[Action]:
    need(isinstance(text, str), f"The function returned {text[0]}. Return one string, such as 'F0.0 F0.1 B0.0 B0.1'.")
    try:
        return [Action.parse(each) for each in text.split()]
    except ValueError as error:
        less = " Does the warm-up have more forward passes than there are micro-batches?" if ".-" in str(error) else ""
        need(False, f"{error}.{less}")


def compare_list(student, rank, ranks, micro_batches, cap, wanted: str):
    with case(f"one_f_one_b(rank={rank}, ranks={ranks}, micro_batches={micro_batches}, cap={cap})"):
        found = parsed(student.run(ask_list, rank, ranks, micro_batches, cap))
        right = parsed(wanted)
        if found == right:
            return
        strange = [each for each in found if each.stage != rank]
        need(
            not strange,
            f"The list contains {strange[0] if strange else ''}, an action of another stage. Return one rank's list: "
            f"rank {rank} has stage {rank}.",
        )
        twice = [each for each in found if found.count(each) > 1]
        need(
            not twice,
            f"{twice[0] if twice else ''} appears {times(found.count(twice[0])) if twice else ''} in the list.",
        )
        missing = [each for each in right if each not in found]
        need(
            not missing,
            f"The list lacks {', '.join(map(str, missing[:3]))}. Each micro-batch needs a forward and a backward pass.",
        )
        more = [each for each in found if each not in right]
        need(
            not more,
            f"The list contains {more[0] if more else ''}. Use only F and B, and micro-batches 0 to "
            f"{micro_batches - 1}.",
        )
        need_flights(found, rank, ranks, cap)
        backward = [each.micro_batch for each in found if each.kind == "B"]
        need(
            backward == sorted(backward),
            f"The backward passes run in the order {', '.join(map(str, backward))}. Always take the oldest "
            "micro-batch in flight.",
        )
        first = next(n for n, pair in enumerate(zip(found, right, strict=True)) if pair[0] != pair[1])
        before, most = " ".join(map(str, right[:first])) or "none", min(ranks - rank, cap)
        need(
            False,
            f"The list has {found[first]} instead of {right[first]} (actions before it: {before}). Run forward passes "
            f"in order and as early as allowed: rank {rank} of {ranks} may have {most} in flight with cap={cap}.",
        )


def need_flights(found, rank, ranks, cap):
    """The words for a rank with too much in flight."""
    flying = 0
    for action in found:
        flying += 1 if action.kind == "F" else -1
        need(flying >= 0, f"{action} comes before the forward pass that it needs.")
        need(flying <= cap, f"After {action}, {flying} micro-batches are in flight, but the cap is {cap}.")
        need(
            flying <= ranks - rank,
            f"After {action}, {flying} micro-batches are in flight. In 1F1B, the last rank ({ranks - 1}) has at most "
            f"one in flight, and each earlier rank has at most one more than the next. For rank {rank}, the limit is "
            f"{ranks - rank}.",
        )


def compare_lists(student, ranks, micro_batches):
    for rank, row in enumerate(lines(one_f_one_b(ranks, micro_batches))):
        compare_list(student, rank, ranks, micro_batches, ranks, row)


@ex2.fact("with a cap as large as the number of ranks, each rank's list is plain 1F1B")
def _(student):
    compare_lists(student, 2, 4)
    compare_lists(student, 3, 5)


@ex2.fact("the lists are right if there are no more micro-batches than ranks")
def _(student):
    compare_lists(student, 4, 2)
    compare_lists(student, 3, 3)


@ex2.fact("under a cap, each rank has as many micro-batches in flight as allowed, and no more")
def _(student):
    compare_list(student, 0, 4, 4, 2, "F0.0 F0.1 B0.0 F0.2 B0.1 F0.3 B0.2 B0.3")
    compare_list(student, 1, 4, 3, 1, "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2")
    compare_list(student, 3, 4, 2, 3, "F3.0 B3.0 F3.1 B3.1")


# --- ex3: the first mistake -----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    star=True,
    title="The first mistake",
    hints=[
        "In step 1, look at each action once, and keep a set of the actions that came before.",
        "Step 2 needs a position in each list and a set of finished actions. Loop over all ranks until no rank can "
        "advance.",
        "When no rank can advance, look at each rank's next action. Which of the actions that this action needs has "
        "not run, "
        "and in which list is that action?",
        "In step 3, all stages of a rank count together. Which number rises with each F and falls with each B?",
    ],
)

RULES = ("rank", "twice", "dependency", "deadlock", "memory")


def ask_mistake(lab, rows, placement, cap):
    from utils.exercises.facts.probes import kind_of

    found = lab.first_mistake(rows, placement, cap)
    if found is None:
        return None
    if not isinstance(found, (list, tuple)) or len(found) != 3:
        return f"{found!r:.60}, {kind_of(found)}"
    rank, position, rule = found
    if isinstance(rule, str) and all([hasattr(each, "__index__") for each in (rank, position)]):
        return [int(rank), int(position), str(rule)]
    return f"{found!r:.60}"


def compare_mistake(student, rows, placement, cap, wanted, why=""):
    shown = "; ".join(f"rank {rank}: {row}" for rank, row in enumerate(rows))
    where = "" if list(placement) == list(range(len(rows))) else f", placement={list(placement)}"
    with case(f"For {shown}{where}, cap={cap}"):
        found = student.run(ask_mistake, rows, list(placement), cap)
        need(
            not isinstance(found, str),
            f"first_mistake returned {found}. Return None, or a rank, a position and one of the words "
            f"{', '.join(RULES)}.",
        )
        found = found and tuple(found)
        if not why and found != wanted:
            why = COUNTS[wanted[2]] if wanted else _allowed(found[2], cap)
        need(
            found == wanted,
            f"first_mistake returned {_told(rows, found)} instead of {_told(rows, wanted)}. {why}".strip(),
        )


COUNTS = {
    "rank": "Step 1 reads rank 0's list first. For each action, it checks 'rank' before 'twice'.",
    "twice": "Step 1 reads rank 0's list first, and it comes before steps 2 and 3.",
    "dependency": "Report the lowest stuck rank whose next action needs an action that comes later in the same list or "
    "is in no list.",
    "deadlock": "Every stuck rank waits for an action in another rank's list. Report the lowest stuck rank.",
    "memory": "If no other rule is broken, report the first action that brings its rank above the cap.",
}


def _allowed(rule, cap) -> str:
    """Why a mistake that an answer has found is none."""
    if rule == "memory":
        return f"With cap={cap}, a rank may have {cap} forward passes in flight."
    if rule in ("rank", "twice"):
        return "Stage s is on rank placement[s]. Two actions are equal only if kind, stage and micro-batch are equal."
    return "All ranks finish their lists if each one continues as soon as its next action can run."


def _told(rows, answer) -> str:
    if answer is None:
        return "None (no mistake)"
    rank, position, rule = answer
    row = rows[rank].split() if 0 <= rank < len(rows) else []
    action = f" at {row[position]}" if 0 <= position < len(row) else ""
    return f"({rank}, {position}, {rule!r}){action}"


@ex3.fact("legal lists have no mistake: GPipe, 1F1B, two stages on each rank, and unfinished lists")
def _(student):
    for make in (gpipe, one_f_one_b):
        compare_mistake(student, lines(make(3, 4)), range(3), 4, None)
    schedule = interleaved_1f1b(2, 4)
    compare_mistake(student, lines(schedule), schedule.placement, 8, None)
    unfinished = ["F0.0 F0.1 B0.0", "F1.0 B1.0"]
    compare_mistake(student, unfinished, [0, 1], 2, None, "B0.1 may be missing: no other action needs it.")


@ex3.fact("step 1 finds an action that is on the wrong rank or appears twice")
def _(student):
    compare_mistake(student, ["F0.0 B0.0", "F1.0 B1.0 F0.1"], [0, 1], 4, (1, 2, "rank"), "Stage 0 is on rank 0.")
    compare_mistake(student, ["F0.0 F0.1 F0.0 B0.0", "F1.0 B1.0"], [0, 1], 4, (0, 2, "twice"), "F0.0 came before.")
    rows = ["F0.0 B1.0 B0.0", "F1.0 F1.0 B1.0"]
    compare_mistake(student, rows, [0, 1], 4, (0, 1, "rank"), "Step 1 reads rank 0's list before rank 1's.")
    why = "Stage 0 is on rank 0. The rule 'rank' comes before 'twice'."
    compare_mistake(student, ["F0.0 B0.0", "F1.0 F0.0 B1.0"], [0, 1], 4, (1, 1, "rank"), why)
    rows = ["F0.0 F0.0 B0.0", "F1.0 B0.0 B1.0"]
    compare_mistake(student, rows, [0, 1], 4, (0, 1, "twice"), "Step 1 reads rank 0's list before rank 1's.")


@ex3.fact("step 2 finds an action that needs an action from later in its list or from no list")
def _(student):
    rows = ["F0.0 B0.0", "B1.0 F1.0"]
    compare_mistake(student, rows, [0, 1], 4, (1, 0, "dependency"), "B1.0 needs F1.0, which comes later in its list.")
    rows = ["F0.0 B0.0", "F1.0"]
    compare_mistake(student, rows, [0, 1], 4, (0, 1, "dependency"), "B0.0 needs B1.0, which is in no list.")
    rows = ["F0.0 B0.0 F0.1 B0.1", "F1.1 F1.0 B1.0", "B2.1 F2.0 B2.0"]
    why = "Ranks 0 and 1 wait for each other, but B2.1 needs F2.1, which is in no list."
    compare_mistake(student, rows, [0, 1, 2], 4, (2, 0, "dependency"), why)


@ex3.fact("step 2 reports a deadlock if ranks wait for each other")
def _(student):
    rows = ["F0.0 B0.0 F0.1 B0.1", "F1.0 F1.1 B1.0 B1.1"]
    why = "Rank 0 waits at B0.0 for rank 1, which waits at F1.1 for rank 0."
    compare_mistake(student, rows, [0, 1], 4, (0, 1, "deadlock"), why)


@ex3.fact("step 3 finds the first action above the cap if all else is right")
def _(student):
    rows = lines(gpipe(2, 3))
    compare_mistake(student, rows, [0, 1], 2, (0, 2, "memory"), "After F0.2, rank 0 has 3 micro-batches in flight.")
    rows = ["F0.0 F0.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1"]
    compare_mistake(student, rows, [0, 1], 2, None, "No rank has more than 2 micro-batches in flight.")
    why = "Rank 0 has two stages. After F2.0, it has three forward passes in flight."
    rows = ["F0.0 F0.1 F2.0 B2.0 F2.1 B2.1 B0.0 B0.1", "F1.0 F1.1 B1.0 B1.1"]
    compare_mistake(student, rows, [0, 1, 0], 2, (0, 2, "memory"), why)
    rows = ["F0.0 F0.1 F0.2 B0.0", "F1.0 F1.0 B1.0"]
    compare_mistake(student, rows, [0, 1], 2, (1, 1, "twice"), "Step 1 comes before step 3.")


# --- ex4: run any legal lists ---------------------------------------------------------------------------------------

ENOUGH = 0.9  # of the bound of its own lists; the model answer reaches 0.99, copies on the streams that compute 0.77
WIDE = 60_000  # numbers in a row of what is sent, where times are looked at
PAR = 99  # percent: what the model answer reaches, measured by the scored function below
ROOM = 1.5  # times the memory that the course's own executor needs; a leak of one tensor a micro-batch needs 2 and more

ex4 = lab.exercise(
    "ex4",
    points=6,
    parts={"loss and gradients": 3, "memory": 1, "streams": 2},
    title="Run any legal lists",
    hints=[
        "In the lesson, run_actions received one order for all ranks. Here your loop must find an order. What must be "
        "launched before an action, and how does the loop continue with another rank until then?",
        "Use two dictionaries with (stage, micro-batch) as the key: one for tensors that have arrived, and one for "
        "tensors kept for the backward pass.",
        "A kernel that reads a copy runs on the current stream of its device. Which event must that stream wait for?",
        "Which tensors are left in your dictionaries after a micro-batch's backward pass? How much memory do they "
        "take?",
        "Take three micro-batches of 4, 3 and 3 samples. What is the weight of each in the mean over all 10 samples?",
    ],
    likely={
        "KeyError": "Does this action depend on one that has not been launched yet? Then continue with another rank "
        "first. (You cannot launch all of rank 0's list first, because it needs gradients from rank 1.)",
        "IndexError": "A rank can have several stages. Stage s is on the device of the rank whose list contains the "
        "actions of stage s.",
    },
)


def run_lists(lab, places, rows, placement, widths, x, y):
    """One step of `lists`; each stage is named, so that the timeline can tell whose kernels these are."""
    import warnings
    from collections import OrderedDict
    from dataclasses import asdict
    from itertools import pairwise

    import torch
    from torch import nn

    import simgpu
    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import numbered, record

    stages, here = [], [torch.device(places[rank]) for rank in placement]
    for number, (ins, outs) in enumerate(pairwise(widths)):
        first, second = nn.Linear(ins, outs + number), nn.Linear(outs + number, outs)
        layers = [(f"s{number}a", first), ("between", nn.Tanh()), (f"s{number}b", second)]
        stages.append(nn.Sequential(OrderedDict(layers)))
    whole = nn.Sequential(*stages)
    fill(whole, 5)
    for stage, device in zip(stages, here, strict=True):
        stage.to(device)
    for p in whole.parameters():
        p.grad = torch.ones_like(p)
    x, y = torch.from_numpy(x).to(here[0]), torch.from_numpy(y).to(here[-1])
    devices, data = [torch.device(place) for place in places], {}
    simulated = all([is_simulated(place) for place in places])
    with warnings.catch_warnings(), simgpu.unfinished_reads() as races:
        warnings.simplefilter("ignore")
        if simulated:
            with record(*places) as timeline, numbered(*stages):
                loss = lab.run_schedule(stages, list(rows), x, y, nn.MSELoss(), devices)
            data = asdict(timeline)
        else:
            loss = lab.run_schedule(stages, list(rows), x, y, nn.MSELoss(), devices)
    if isinstance(loss, torch.Tensor) and loss.numel() == 1:
        loss = float(array(loss))
    return {
        "loss": loss if type(loss) is float else kind_of(loss),
        "gradients": [None if p.grad is None else array(p.grad) for p in whole.parameters()],
        "races": len(races),
        "timeline": data,
    }


def expected_lists(widths, x, y):
    stages = [
        nn.Sequential(nn.Linear(ins, outs + number), nn.Tanh(), nn.Linear(outs + number, outs))
        for number, (ins, outs) in enumerate(pairwise(widths))
    ]
    whole = nn.Sequential(*stages)
    fill(whole, 5)
    loss = nn.functional.mse_loss(whole(torch.from_numpy(x)), torch.from_numpy(y))
    loss.backward()
    return loss.item(), [p.grad.numpy() + 1 for p in whole.parameters()]


def named(schedule) -> str:
    return (
        f"With {schedule.name} (ranks: {schedule.ranks}, stages: {schedule.stages}, "
        f"micro-batches: {schedule.micro_batches})"
    )


def compare_lists_run(student, places, schedule, widths, row_count, *, seed=4):
    rows, placement = lines(schedule), list(schedule.placement)
    x, y = numbers(row_count, widths[0], seed=seed), numbers(row_count, widths[-1], seed=seed + 1)
    with case(f"{named(schedule)} and {row_count} samples, on {', '.join(places)}"):
        run = student.run(run_lists, list(places), rows, placement, list(widths), x, y)
        loss, gradients = expected_lists(widths, x, y)
        need(not isinstance(run["loss"], str), f"run_schedule returned {run['loss']}. Return the loss as one number.")
        compare_step_gradients(run["gradients"], gradients)
        need(
            math.isclose(run["loss"], loss, rel_tol=1e-4),
            f"The loss of the whole batch is {loss:.4f}, but run_schedule returned {run['loss']:.4f}.",
        )
        if run["timeline"]:
            need_order(run["timeline"]["events"], schedule, places)


def need_no_races(student, places, schedule, widths, row_count, *, seed=4):
    rows, placement = lines(schedule), list(schedule.placement)
    x, y = numbers(row_count, widths[0], seed=seed), numbers(row_count, widths[-1], seed=seed + 1)
    with case(f"{named(schedule)} and {row_count} samples, on {', '.join(places)}"):
        run = student.run(run_lists, list(places), rows, placement, list(widths), x, y)
        need(
            not run["races"],
            f"A race occurred {times(run['races'])}: a stream read memory that another stream had not finished "
            "writing. Make the copy's stream wait until the source is written, and make the stream that reads the "
            "copy wait until the copy has arrived.",
        )


def compare_step_gradients(found, expected):
    need(
        all(each is not None for each in found),
        "A parameter has lost its earlier gradient (ones) and has no new one. Do not clear gradients, and check where "
        "the graph is cut.",
    )
    added, wanted = [mine - 1 for mine in found], [right - 1 for right in expected]
    if all(close(mine, right) for mine, right in zip(found, expected, strict=True)):
        return
    need(
        not all(close(mine, right) for mine, right in zip(found, wanted, strict=True)),
        "The parameters have lost their earlier gradients (ones). Add to the existing gradients, and do not call "
        "zero_grad().",
    )
    ratio = math.sqrt(sum((g**2).sum() for g in added) / sum((g**2).sum() for g in wanted))
    need(
        False,
        f"The gradients that were added are wrong. Their norm is {ratio:.2f} times that of the whole batch's "
        "gradients. Is each micro-batch's loss weighted by its share of the samples?",
    )


def need_order(events, schedule, places):
    """Each rank's kernels, in the order in which its device began them, are its list."""
    found = sorted((Event(*event) for event in events), key=lambda event: event.start)
    for rank, row in enumerate(schedule.lists):
        own = {stage: [a.micro_batch for a in row if a[:2] == ("F", stage)] for stage in schedule.stages_of(rank)}
        done = [
            (event.phase, stage, event.label)
            for event in found
            if event.device == places[rank] and event.flops and event.label
            if (stage := stage_of(event.module)) in own
        ]
        actions = [
            Action("F" if phase == "forward" else "B", stage, own[stage][int(label)])
            for (phase, stage, label), _ in groupby(done)
            if int(label) < len(own[stage])
        ]
        for position, (mine, right) in enumerate(zip(actions, row, strict=False)):
            need(
                mine == right,
                f"Rank {rank} ran {mine} where its list has {right} (position {position}, counted from 0). Launch each "
                "list in its own order, and make sure that a backward pass stays within its stage.",
            )
        need(len(actions) == len(row), f"Rank {rank} ran {len(actions)} actions, but its list has {len(row)}.")


def stage_of(module: str) -> int | None:
    """The stage of a kernel: its layers are called s0a, s0b, s1a and so on."""
    return int(module[1:-1]) if module[:1] == "s" and module[1:-1].isdigit() else None


@ex4.fact("with GPipe and 1F1B on two devices, loss and gradients are right, and kernels run in the order of the lists")
def _(student):
    for make in (gpipe, one_f_one_b):
        compare_lists_run(student, student.devices, make(2, 4), (6, 7, 3), 12)


@ex4.fact("micro-batches may differ in size, and there may be fewer of them than ranks")
def _(student):
    device0, device1 = student.devices
    compare_lists_run(student, student.devices, one_f_one_b(2, 3), (6, 7, 3), 10)
    compare_lists_run(student, [device0, device1, device0], one_f_one_b(3, 2), (4, 7, 5, 3), 8)


@ex4.fact("a rank may have several stages")
def _(student):
    compare_lists_run(student, student.devices, interleaved_1f1b(2, 4), (6, 5, 7, 4, 3), 12)


def hold_lists(lab, places, rows, placement, width, micro_batches):
    """The peak on each device. Layers that hold, not compute."""
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array
    from utils.observe.devices import is_simulated

    if not all([is_simulated(place) for place in places]):
        return None
    devices = [torch.device(place) for place in places]
    stages = [nn.Sequential(nn.PReLU(), nn.Tanh()).to(devices[rank]) for rank in placement]
    torch.manual_seed(8)
    x, y = torch.randn(4 * micro_batches, width), torch.randn(4 * micro_batches, width)
    x, y = x.to(devices[placement[0]]), y.to(devices[placement[-1]])
    gpu = torch.get_device_module(devices[0])
    before = [gpu.memory_allocated(device) for device in devices]
    for device in devices:
        gpu.reset_peak_memory_stats(device)
    lab.run_schedule(list(stages), list(rows), x, y, nn.MSELoss(), list(devices))
    peaks = [gpu.max_memory_allocated(device) - b for device, b in zip(devices, before, strict=True)]
    gradients = [None if p.grad is None else array(p.grad) for stage in stages for p in stage.parameters()]
    return {"peaks": peaks, "gradients": gradients}


def by_the_course(schedule):
    """A notebook that runs schedule lists with the course's own executor."""

    def run_schedule(stages, lists, x, y, loss_fn, devices):
        return run(schedule, stages, x, y, loss_fn, devices)

    return SimpleNamespace(run_schedule=run_schedule)


def need_gradients(found, right):
    need(
        all(close(mine, theirs) for mine, theirs in zip(found, right, strict=True)),
        "The gradients differ from those of the whole batch.",
    )


def need_memory(student, places, schedule, width=10_000):
    rows, placement = lines(schedule), list(schedule.placement)
    with case(named(schedule)):
        asked = list(places), rows, placement, width, schedule.micro_batches
        own = student.run(hold_lists, *asked)
        if own is None:
            return
        need_devices(student)
        right = hold_lists(by_the_course(schedule), *asked)
        for rank, (mine, course) in enumerate(zip(own["peaks"], right["peaks"], strict=True)):
            need(
                mine <= ROOM * course,
                f"Rank {rank}'s peak memory is {mine / 1e6:.1f} MB, but the course's executor needs "
                f"{course / 1e6:.1f} MB for these lists. Which tensors do you still hold after a micro-batch's "
                "backward pass: tensors in a dictionary, or a loss with its graph?",
            )
        need_gradients(own["gradients"], right["gradients"])


@ex4.fact("only micro-batches in flight take memory (checked on simulated devices only)", part="memory")
def _(student):
    need_memory(student, student.devices, one_f_one_b(2, 8))


def time_lists(lab, places, rows, placement, width, row_count, measured):
    """The timeline of a run. Where `measured`, what the actions cost, too, one by one."""
    from dataclasses import asdict

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record
    from utils.schedules import Schedule, measure_costs

    if not all([is_simulated(place) for place in places]):
        return {"watched": False}
    devices, stages = [torch.device(place) for place in places], []
    # A sum of very many numbers for very few results is slow on a GPU and quick here. What is sent is wide, so that
    # copies take a fifth of the time that a stage does.
    torch.manual_seed(9)
    for number, rank in enumerate(placement):
        ins, outs = width if number else 8, width if number < len(placement) - 1 else 8
        stages.append(nn.Sequential(nn.Linear(ins, 8), nn.Linear(8, outs, bias=False)).to(devices[rank]))
    for stage in stages:
        for p in stage.parameters():
            p.grad = torch.zeros_like(p)
    x, y = torch.ones(row_count, 8).to(devices[placement[0]]), torch.ones(row_count, 8).to(devices[placement[-1]])
    costs = measure_costs(Schedule.of(rows, placement), stages, x, y, nn.MSELoss(), devices) if measured else []
    for stage in stages:
        for p in stage.parameters():
            p.grad = torch.zeros_like(p)
    with record(*places) as timeline:
        lab.run_schedule(list(stages), list(rows), x, y, nn.MSELoss(), list(devices))
    biases = [layer.bias for stage in stages for layer in stage if layer.bias is not None]
    return {
        "watched": "virtual clock" in timeline.source,
        "span": timeline.span,
        "costs": [list(each) for each in costs if each],
        "timeline": asdict(timeline),
        "gradients": [None if bias.grad is None else array(bias.grad) for bias in biases],
    }


def timed(student, places, schedule, rows):
    asked = list(places), lines(schedule), list(schedule.placement), WIDE, rows * schedule.micro_batches
    return student.run(time_lists, *asked, False)


def timed_here(student, places, schedule, rows):
    """The same of the course's own executor, and what the actions cost."""
    need_devices(student)
    asked = list(places), lines(schedule), list(schedule.placement), WIDE, rows * schedule.micro_batches
    return time_lists(by_the_course(schedule), *asked, True)


def share_of(run, right, schedule) -> float:
    """The time of the lists, where each way between two ranks has copies of its own, as a share of what it took."""
    forward, backward, output = right["costs"]
    bound = play(schedule, Costs(forward, backward, output=output), LINKS["nvlink2"]).span
    return bound / run["span"] if run["span"] else 0.0


def need_share(student, places, schedule, rows):
    with case(named(schedule)):
        run = timed(student, places, schedule, rows)
        if not run["watched"]:
            return
        events = [Event(*event) for event in run["timeline"]["events"]]
        computing = {(event.device, event.stream) for event in events if event.flops}
        if any((event.device, event.stream) in computing for event in events if event.kind == "d2d"):
            why = "Copies run on the compute streams, so later kernels on both devices wait for them."
        elif lesson.host_waited(sorted(event.launched for event in events)):
            why = "Python waits for a device in the loop. float(), .item() and synchronize() cause such waits."
        else:
            why = "Which copy or kernel waits longer than necessary? Look at each stream in the timeline."
        right = timed_here(student, places, schedule, rows)
        share = share_of(run, right, schedule)
        need(
            share >= ENOUGH,
            f"The step reaches {share:.0%} of the bound of its lists, but must reach {ENOUGH:.0%}. {why}",
        )
        need_gradients(run["gradients"], right["gradients"])


@ex4.fact("no kernel or copy reads a tensor before it is written (checked on simulated devices only)", part="streams")
def _(student):
    for make in (gpipe, one_f_one_b):
        need_no_races(student, student.devices, make(2, 4), (6, 7, 3), 12)
    device0, device1 = student.devices
    need_no_races(student, student.devices, one_f_one_b(2, 3), (6, 7, 3), 10)
    need_no_races(student, [device0, device1, device0], one_f_one_b(3, 2), (4, 7, 5, 3), 8)
    need_no_races(student, student.devices, interleaved_1f1b(2, 4), (6, 5, 7, 4, 3), 12)


@ex4.fact(
    f"the step reaches {ENOUGH:.0%} of the bound of its lists (checked on simulated devices only)",
    part="streams",
)
def _(student):
    need_share(student, student.devices, interleaved_1f1b(2, 4), 24)


@ex4.timeline
def _(student):
    return timed(student, student.devices, interleaved_1f1b(2, 4), 24)["timeline"]


@ex4.scored(par=PAR, unit="% of the bound of its lists; higher is better")
def _(student):
    schedule = interleaved_1f1b(2, 4)
    run = timed(student, student.devices, schedule, 24)
    if not run["watched"]:
        return math.nan
    return 100 * share_of(run, timed_here(student, student.devices, schedule, 24), schedule)


# --- ex5: a weight gradient that waits ------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    star=True,
    title="A weight gradient that waits",
    hints=[
        "A linear layer's backward pass computes three gradients: those of the input, the weight and the bias. Which "
        "tensors does each one need, and for which gradient does another rank wait?",
        "backward() of an autograd.Function returns one value for each input of its forward(). What does it return "
        "for an input that gets no gradient?",
        "If `waiting` has several objects, which one does W take first, and what happens to an existing gradient?",
        "If x requires no gradient, another input of the function must require one. Otherwise no backward pass runs.",
    ],
)


def run_later(lab, device, sizes, seed, pieces, gradients, wants):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.observe.devices import is_simulated
    from utils.observe.trace import record

    layer, waiting = nn.Linear(*sizes), []
    fill(layer, seed)
    layer.to(device)
    outputs, inputs, after, work = [], [], [], []

    def told():
        return [None if p.grad is None else array(p.grad).copy() for p in layer.parameters()]

    for piece in pieces:
        inputs.append(torch.from_numpy(piece).to(device).requires_grad_(wants))
        outputs.append(lab.later_linear(inputs[-1], layer.weight, layer.bias, waiting))
        if not isinstance(outputs[-1], torch.Tensor):
            return {"wrong": f"later_linear returned {kind_of(outputs[-1])}. Return the output tensor."}
    if not outputs[0].requires_grad:
        return {"wrong": "The output requires no gradient, so no backward pass runs. Do not detach weight and bias."}
    values, early = [array(each) for each in outputs], len(waiting)
    upstream = [torch.from_numpy(each).to(device) for each in gradients]
    if is_simulated(device):
        with record(device) as timeline:
            for output, gradient in zip(outputs, upstream, strict=True):
                output.backward(gradient)
        work.append(sum([event.flops for event in timeline.events]))
    else:
        for output, gradient in zip(outputs, upstream, strict=True):
            output.backward(gradient)
    lengths, before = [len(waiting)], told()
    passed = [None if each.grad is None else array(each.grad) for each in inputs]
    for _ in pieces:
        if not waiting:
            break
        lab.backward_weights(waiting)
        lengths.append(len(waiting))
        after.append(told())
    return {
        "wrong": "",
        "values": values,
        "early": early,
        "lengths": lengths,
        "before": before,
        "passed": passed,
        "after": after,
        "work": work,
    }


def compare_later(student, device, sizes, rows, wants=True, seed=2):
    pieces = [numbers(count, sizes[0], seed=seed + n) for n, count in enumerate(rows)]
    gradients = [numbers(count, sizes[1], seed=seed + 9 + n) for n, count in enumerate(rows)]
    layer = nn.Linear(*sizes)
    fill(layer, seed)
    with case(
        f"With {count_of(len(rows), 'backward pass', 'es')}{'' if wants else ' and an x that requires no gradient'}"
    ):
        run = student.run(run_later, device, list(sizes), seed, pieces, gradients, wants)
        need(not run["wrong"], run["wrong"])
        expected = [layer(torch.from_numpy(piece)).detach().numpy() for piece in pieces]
        need(
            all(close(mine, right) for mine, right in zip(run["values"], expected, strict=True)),
            "The output differs from that of nn.functional.linear.",
        )
        if wants:
            right = [gradients_of(layer, *pair)[0] for pair in zip(pieces, gradients, strict=True)]
            need(
                all(close(mine, wanted) for mine, wanted in zip(run["passed"], right, strict=True)),
                "After backward(), the gradient of x differs from that of nn.functional.linear.",
            )
        need(
            all(each is None for each in run["before"]),
            "After backward() and before W, the weight or the bias already has a gradient. Compute both gradients in "
            "W.",
        )
        need(
            not run["early"], "`waiting` is not empty before the first backward pass. Append to the list in backward()."
        )
        need(
            run["lengths"][0] == len(rows),
            f"`waiting` has {count_of(run['lengths'][0], 'object')} before the first W. Append one in each backward "
            "pass.",
        )
        need(
            run["lengths"] == [*range(len(rows), -1, -1)],
            f"`waiting` had {count_of(run['lengths'][0], 'object')} before the first W. Its length after each W was "
            f"{', '.join(map(str, run['lengths'][1:]))}. Each W must remove one object.",
        )
        compare_weights(run["after"], [gradients_of(layer, *pair) for pair in zip(pieces, gradients, strict=True)])
        need_little_work(run["work"], sizes, rows, wants)


def gradients_of(layer, x, gradient):
    """Those of the input, the weight and the bias of an ordinary layer."""
    x = nn.Parameter(torch.from_numpy(x))
    total = (layer(x) * torch.from_numpy(gradient)).sum()
    return [each.numpy() for each in torch.autograd.grad(total, [x, *layer.parameters()])]


def compare_weights(after, each):
    weight, bias = 0.0, 0.0
    for number, (found, (_, alone, of_bias)) in enumerate(zip(after, each, strict=True)):
        weight, bias = weight + alone, bias + of_bias
        need(found[1] is not None, "After W, the gradient of the bias is None.")
        need(found[0] is not None, "After W, the gradient of the weight is None.")
        need(
            not number or not close(found[0], alone),
            "A later W replaces the weight's gradient. Add to the existing gradient.",
        )
        so_far = "" if len(each) == 1 else f" number {number + 1} (the oldest backward pass comes first)"
        need(
            close(found[0], weight),
            f"After W{so_far}, the weight's gradient differs from that of nn.functional.linear.",
        )
        need(close(found[1], bias), f"After W{so_far}, the bias's gradient differs from that of nn.functional.linear.")


def count_of(number: int, thing: str, ending: str = "s") -> str:
    return f"{number} {thing}{'' if number == 1 else ending}"


def need_little_work(work, sizes, rows, wants):
    """backward() may do one product, that for the input, where an ordinary layer does two."""
    product = 2 * sum(rows) * math.prod(sizes)
    done = work[0] / product if work else 0
    need(
        done < 1.5,
        f"Each backward() computes {done:.1f} matrix products, but needs {'only one, for x' if wants else 'none'}. "
        "Move the weight's matrix product to W, not only the addition.",
    )
    need(
        wants or done < 0.5,
        f"Each backward() computes {done:.1f} matrix products, but x needs no gradient. In an autograd.Function, "
        "ctx.needs_input_grad says which inputs need a gradient.",
    )


@ex5.fact("backward() computes the gradient of x, and W computes those of the weight and the bias")
def _(student):
    compare_later(student, student.devices[0], (5, 4), (3,))


@ex5.fact("each W takes the oldest object, does the computation, and adds to the gradients")
def _(student):
    compare_later(student, student.devices[1], (40, 30), (8, 6, 7))


@ex5.fact("no matrix product runs in backward() if x needs no gradient")
def _(student):
    compare_later(student, student.devices[0], (12, 9), (4, 4), wants=False)


# --- ex6: 1F1B beaten -----------------------------------------------------------------------------------------------

CAP, RANKS, MICRO_BATCHES = 3, 4, 8
TO_BEAT = play(one_f_one_b(RANKS, MICRO_BATCHES), Costs(1.0, inputs=1.0, weights=1.0)).span

ex6 = lab.exercise(
    "ex6",
    star=True,
    title="Beat 1F1B with less memory",
    hints=[
        "Of I and W, only I produces the gradient that the previous stage needs. Which one can wait, and until when?",
        "With two stages on each rank, backward passes start earlier on rank 0 if rank 0 also has the last stage.",
        "On each rank, prefer I if its gradient has arrived, then F if the cap allows it, and otherwise W.",
        "Each W frees memory. Which F can run only after that?",
    ],
)


def ask_three(lab):
    from utils.exercises.facts.probes import kind_of

    found = lab.three_in_flight()
    if not isinstance(found, (list, tuple)) or len(found) != 2:
        return {"wrong": f"three_in_flight returned {kind_of(found)}. Return two values, lists and placement."}
    lists, placement = found
    if not isinstance(lists, (list, tuple)) or not all([isinstance(row, str) for row in lists]):
        return {"wrong": f"`lists` is {kind_of(lists)}, but must be a list of strings, one for each rank."}
    if not isinstance(placement, (list, tuple)) or not all([hasattr(rank, "__index__") for rank in placement]):
        return {"wrong": f"`placement` is {kind_of(placement)}, but must be a list of ranks, one for each stage."}
    return {"wrong": "", "lists": [str(row) for row in lists], "placement": [int(rank) for rank in placement]}


def schedule_found(student) -> Schedule:
    found = student.run(ask_three)
    need(not found["wrong"], found["wrong"])
    rows, placement = found["lists"], found["placement"]
    need(len(rows) == RANKS, f"`lists` has {count_of(len(rows), 'string')}, but there are {RANKS} ranks.")
    each = [placement.count(rank) for rank in range(RANKS)]
    need(
        each in ([1] * RANKS, [2] * RANKS) and len(placement) == sum(each),
        f"`placement` is {placement}. Give every rank from 0 to {RANKS - 1} one stage, or every rank two.",
    )
    try:
        schedule = Schedule.of(rows, placement, MICRO_BATCHES)
    except ValueError as error:
        raise Unmet(f"{error}.") from None
    wrong = mistake(schedule)
    need(not wrong, wrong.reason if wrong else "")
    return schedule


@ex6.fact("the lists are legal and complete")
def _(student):
    schedule_found(student)


@ex6.fact(f"no rank has more than {CAP} micro-batches in flight")
def _(student):
    wrong = mistake(schedule_found(student), memory_cap=CAP)
    need(not wrong, wrong.reason if wrong else "")


@ex6.fact(f"the lists take less than {TO_BEAT:.0f} seconds")
def _(student):
    schedule = schedule_found(student)
    seconds = RANKS / schedule.stages
    span = play(schedule, Costs(seconds, inputs=seconds, weights=seconds)).span
    need(
        span < TO_BEAT,
        f"The lists take {span:g} seconds, and 1F1B takes {TO_BEAT:g}. Where a rank is idle, could a W or an action of "
        "another micro-batch fill the gap?",
    )
