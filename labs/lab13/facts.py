"""Lab 13's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

A probe runs beside the student's code and tells plain data; the fact judges it here. There are no processes and no
network: ranks are threads that take turns (utils/kits/mailbox.py), and a cluster is played (`Step`, below).
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from itertools import accumulate, pairwise, permutations, product
from typing import Any

import numpy as np
import torch
from torch import nn

from simgpu import Fabric
from simgpu.profiles import LINKS, NETWORKS
from utils.exercises.facts import Lab, case, need, visible
from utils.exercises.facts.probes import build, fill
from utils.schedules import Costs, one_f_one_b, play

lab = Lab("lab13", "Beyond one machine")
lesson = visible("lesson08")
numbers = lesson.numbers

CLOSE: dict[str, Any] = {"rtol": 1e-4, "atol": 1e-5}


def close(mine, theirs) -> bool:
    return np.shape(mine) == np.shape(theirs) and np.allclose(mine, theirs, **CLOSE)


def need_unchanged(name: str, changed: list[int], *arguments: str) -> None:
    """Unmet where a function has changed an argument of its: the next call would find it changed."""
    need(
        not changed,
        f"{name} has changed its input: {', '.join(arguments[place] for place in changed)}. Work on a copy, because "
        "the caller may need the original again.",
    )


def count_of(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def micro_batches_of(number: int) -> str:
    return f"{number} micro-batch{'' if number == 1 else 'es'}"


# --- ex1: which GPU is it? ------------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    star=True,
    title="Which GPU is it?",
    hints=[
        "Does CUDA number the GPUs by bus or by speed? The numbers in `visible` are indices into that list.",
        "List the GPUs in the order in which the process sees them. The local rank is an index into that list.",
    ],
)


def ask_gpu(lab, visible, order, local_rank, by_bus, by_speed):
    from utils.exercises.facts.probes import called, text_or_kind

    visible = None if visible is None else list(visible)
    found, changed = called(lab.which_gpu, visible, order, local_rank, list(by_bus), list(by_speed))
    return [None if found is None else text_or_kind(found), changed]


UUIDS = ("GPU-8932", "GPU-0ab1", "GPU-89f0", "GPU-4e07")
BY_SPEED = (UUIDS[2], UUIDS[0], UUIDS[1], UUIDS[3])


def seen_by(visible: list[int] | None, order: str | None, by_bus, by_speed) -> list[str]:
    """What a process sees, in its order. A test compares it with what PyTorch makes of the same numbers."""
    ordered = by_bus if order == "PCI_BUS_ID" else by_speed
    return list(ordered) if visible is None else [ordered[number] for number in visible]


def compare_gpus(student, visible, order=None, by_bus=UUIDS, by_speed=BY_SPEED):
    seen = seen_by(visible, order, by_bus, by_speed)
    told = (
        f"With visible={visible}, order={order!r}, GPUs {', '.join(by_bus)} by bus and {', '.join(by_speed)} by speed"
    )
    for local_rank in range(len(by_bus) + 1):
        found, changed = student.run(ask_gpu, visible, order, local_rank, list(by_bus), list(by_speed))
        right = repr(seen[local_rank]) if local_rank < len(seen) else None
        what = f"which_gpu returned {found} instead of {right}. The process sees {', '.join(seen)}, in this order."
        if right is None:
            what = f"which_gpu returned {found} instead of None. The process sees {', '.join(seen) or 'no GPU'}."
        with case(f"{told}, for local_rank={local_rank}"):
            need(found == right, what)
            need_unchanged("which_gpu", changed, "visible", "order", "local_rank", "by_bus", "by_speed")


@ex1.fact("the local rank is an index into the GPUs that the process sees, in the order of `visible`")
def _(student):
    compare_gpus(student, [2, 0], "PCI_BUS_ID")
    compare_gpus(student, [3], "PCI_BUS_ID")


@ex1.fact("without CUDA_DEVICE_ORDER, the fastest GPU is number 0")
def _(student):
    compare_gpus(student, [2, 0])
    compare_gpus(student, [1, 3, 0], "FASTEST_FIRST")


@ex1.fact("all GPUs are visible if CUDA_VISIBLE_DEVICES is not set, and none if it is empty")
def _(student):
    compare_gpus(student, None, "PCI_BUS_ID")
    compare_gpus(student, None)
    compare_gpus(student, [], "PCI_BUS_ID")


# --- ex2: who talks to whom -----------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=2,
    title="Who talks to whom?",
    hints=[
        "For data 2, pipeline 2 and tensor 4, write the sixteen ranks as 2 x 2 rows of 4. Where is rank 13?",
        "The ranks of neighbors along a dimension differ by the product of the sizes to its right.",
        "A group contains all ranks whose coordinates equal yours in every dimension but one. "
        "torch.arange(...).view(...) makes a mesh.",
    ],
)


def ask_where(lab, rank, names, sizes, per_node):
    import torch

    from utils.exercises.facts.probes import called, kind_of

    found, changed = called(lab.where, rank, dict(zip(names, sizes, strict=True)), per_node)
    if not isinstance(found, (tuple, list)):
        return kind_of(found)
    if len(found) != 4:
        return f"a sequence of length {len(found)}"
    node, local_rank, groups, leaving = found
    if not isinstance(groups, dict) or not isinstance(leaving, (list, tuple, set)):
        return f"{kind_of(groups)} and {kind_of(leaving)} as its third and fourth values"

    def plain(number):
        return number if isinstance(number, int) and not isinstance(number, bool) else kind_of(number)

    def ranks(group):
        if isinstance(group, torch.Tensor):
            return kind_of(group)
        return [plain(each) for each in group] if isinstance(group, (list, tuple, range)) else kind_of(group)

    told = {name if isinstance(name, str) else kind_of(name): ranks(group) for name, group in groups.items()}
    return [plain(node), plain(local_rank), told, [n if isinstance(n, str) else kind_of(n) for n in leaving], changed]


def mesh_of(sizes: dict[str, int]) -> np.ndarray:
    return np.arange(math.prod(sizes.values())).reshape(tuple(sizes.values()))


def groups_of(rank: int, sizes: dict[str, int]) -> dict[str, list[int]]:
    """The ranks of each group that a rank belongs to, by dimension."""
    mesh = mesh_of(sizes)
    place = tuple(int(each[0]) for each in np.where(mesh == rank))
    return {name: mesh[(*place[:axis], slice(None), *place[axis + 1 :])].tolist() for axis, name in enumerate(sizes)}


def why_group(found, group, rank) -> str:
    """The mistake in a group, or how far apart its ranks are."""
    if isinstance(found, list) and sorted([*found, rank], key=str) == sorted(group, key=str):
        return "Include the rank itself."
    if isinstance(found, list) and sorted(found, key=str) == sorted(group, key=str):
        return "Sort the ranks."
    apart = group[1] - group[0] if len(group) > 1 else 0
    return f"Neighboring ranks of this group differ by {apart}, the product of the sizes after it." if apart else ""


def compare_where(student, sizes, per_node, ranks):
    for rank in ranks:
        with case(
            f"For rank {rank} of {' x '.join(f'{name} {size}' for name, size in sizes.items())} with {per_node} per "
            "node"
        ):
            found = student.run(ask_where, rank, list(sizes), list(sizes.values()), per_node)
            need(not isinstance(found, str), f"where returned {found}. Return (node, local_rank, groups, leaving).")
            node, local_rank, groups, leaving, changed = found
            need(node == rank // per_node, f"node is {node}, but should be {rank // per_node}.")
            need(local_rank == rank % per_node, f"local_rank is {local_rank}, but should be {rank % per_node}.")
            right = groups_of(rank, sizes)
            for name, group in right.items():
                need(name in groups, f"groups has no key {name!r}. Take the names from sizes.")
                need(
                    groups[name] == group,
                    f"the {name} group is {groups[name]}, but should be {group}. "
                    f"{why_group(groups[name], group, rank)}",
                )
            need(len(groups) == len(right), f"groups has the keys {', '.join(groups)}. Take the names from sizes.")
            leaves = [name for name, group in right.items() if len({each // per_node for each in group}) > 1]
            need(
                sorted(leaving) == sorted(leaves),
                f"leaving has {', '.join(leaving) or 'nothing'}, but should have {', '.join(leaves) or 'nothing'}. The "
                f"groups are {right}, and rank r is on node r // {per_node}.",
            )
            need_unchanged("where", changed, "rank", "sizes", "per_node")


@ex2.fact("where() finds the groups that span more than one node, with tensor innermost and data outermost")
def _(student):
    compare_where(student, {"data": 2, "pipeline": 2, "tensor": 4}, 8, (0, 5, 13))


@ex2.fact("the same sizes in a different order give different groups")
def _(student):
    compare_where(student, {"tensor": 4, "data": 2, "pipeline": 2}, 8, (0, 6, 13))


@ex2.fact("a mesh may have one dimension, and a group may leave the node for one rank but not for another")
def _(student):
    compare_where(student, {"data": 8}, 4, (3, 6))
    compare_where(student, {"pipeline": 4, "tensor": 3}, 8, (1, 7))


# --- ex3: what failures cost ----------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    star=True,
    title="What a failure costs",
    hints=[
        "Without failures, how many saves are there, and when is the job done? Try work=100 and every=40 on paper.",
        "Call a part of the work and its save a period. Only a complete period counts.",
        "Go from failure to failure. Which periods end before each failure? When does the next period begin? What if "
        "another failure comes earlier?",
    ],
)


def ask_finished(lab, work, every, save, restart, failures):
    from utils.exercises.facts.probes import called, kind_of

    found, changed = called(lab.finished, work, every, save, restart, list(failures))
    number = isinstance(found, (int, float)) and not isinstance(found, bool)
    return [float(found) if number else kind_of(found), changed]


def history(work, every, save, restart, failures) -> list[tuple[float, str]]:
    """What happens until the job is done, stretch by stretch: when each ends, and in words."""
    saved, begin, failures, told = 0, 0, list(failures), []
    while True:
        part = min(every, work - saved)
        last = saved + part == work
        end = begin + part + (0 if last else save)
        if failures and failures[0] < end:
            failure = failures.pop(0)
            begin = failure + restart
            told.append((begin, f"failure at {failure:g}, resumed at {begin:g}"))
            continue
        told.append((end, f"done at {end:g}" if last else f"{saved + part:g} s of work saved at {end:g}"))
        if last:
            return told
        saved, begin = saved + part, end


def moments(work, every, save, restart, failures) -> set[float]:
    """When something ended: a save, a restart, the job."""
    return {end for end, _ in history(work, every, save, restart, failures)}


def compare_finished(student, work, every, save, restart, failures=()):
    all_of_it = history(work, every, save, restart, failures)
    right, steps = all_of_it[-1][0], [step for _, step in all_of_it]
    told = f"failures at {', '.join(map(str, failures))}" if failures else "no failures"
    with case(f"With work={work}, every={every}, save={save}, restart={restart} and {told}"):
        found, changed = student.run(ask_finished, work, every, save, restart, list(failures))
        need(not isinstance(found, str), f"finished returned {found}. Return the time at which the job is done.")
        steps = steps if len(steps) <= 5 else [*steps[:3], "...", steps[-1]]
        need(
            math.isclose(found, right, rel_tol=1e-9),
            f"finished returned {found:g} instead of {right:g}. The history of the job is: {'; '.join(steps)}.",
        )
        need_unchanged("finished", changed, "work", "every", "save", "restart", "failures")


@ex3.fact("without failures, the job saves after each part except the last")
def _(student):
    compare_finished(student, 100, 40, 5, 20)
    compare_finished(student, 120, 40, 5, 20)
    compare_finished(student, 100, 300, 5, 20)


@ex3.fact("a failure costs the work since the last save and the time of the restart")
def _(student):
    compare_finished(student, 100, 40, 5, 20, [70.5])
    compare_finished(student, 100, 40, 5, 20, [10, 150])


@ex3.fact("a failure during a save loses the work that was being saved")
def _(student):
    compare_finished(student, 100, 40, 5, 20, [43])


@ex3.fact("after a failure during a restart, the restart begins again")
def _(student):
    compare_finished(student, 100, 40, 5, 20, [70, 80])
    compare_finished(student, 100, 40, 5, 20, [70, 80, 95])


@ex3.fact("a failure after the end changes nothing")
def _(student):
    compare_finished(student, 100, 40, 5, 20, [109, 500])
    compare_finished(student, 100, 40, 5, 20, [111])


# --- ex4: one stage of a pipeline -----------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=8,
    parts={"loss and gradients": 4, "1F1B": 2, "sends that wait": 2},
    title="One rank of a pipeline",
    hints=[
        "For two ranks and three micro-batches, write down each rank's sends and receives in order. Does the n-th "
        "message that one rank receives match the n-th message that the other rank sends?",
        "recv needs a tensor of the message's shape. Which tensor has the shape of the gradient that you receive? And "
        "which property must a received input have so that it gets a gradient to send back?",
        "The micro-batches have different sizes. What weight does each one's mean have in the mean over all samples?",
        "When sends wait and two neighbors have a message for each other, one of them must receive first. Let the "
        "later rank receive its next input before it sends its gradient.",
    ],
)

SLOW = "With sends that wait"


def run_stages(lab, widths, rows, seed, sends_wait, gradients_there, layers, loss):
    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, build, fill, kind_of
    from utils.kits.mailbox import noted, together

    ranks, total = len(widths) - 1, sum(rows)
    parts, actions, given = [], [], list(rows)
    for rank in range(ranks):
        part = build(layers[rank])
        fill(part, seed + rank)
        parts.append(part)
        actions.append(noted(part, rank))
        for p in part.parameters():
            p.grad = torch.ones_like(p) if gradients_there else None
    x, y = (torch.arange(total * widths[n], dtype=torch.float32).reshape(total, widths[n]) for n in (0, -1))
    x, y = torch.sin(x + seed), torch.cos(y + seed)

    def main(rank, send, recv):
        mine = x.clone() if rank == 0 else None
        target = y.clone() if rank == ranks - 1 else None
        loss_fn = {"mse_loss": nn.functional.mse_loss, "smooth_l1_loss": nn.functional.smooth_l1_loss}[loss]
        return lab.stage_main(rank, ranks, parts[rank], given, widths[rank], mine, target, loss_fn, send, recv)

    losses, letters = [], []
    for found in together(main, ranks, sends_wait=sends_wait, letters=letters):
        number = isinstance(found, (int, float)) and not isinstance(found, bool)
        one = isinstance(found, torch.Tensor) and found.numel() == 1
        losses.append(found if number else float(array(found).ravel()[0]) if one else kind_of(found))
    gradients = [[None if p.grad is None else array(p.grad) for p in part.parameters()] for part in parts]
    weights = [[array(p) for p in part.parameters()] for part in parts]
    return {
        "losses": losses,
        "gradients": gradients,
        "actions": actions,
        "weights": weights,
        "rows": given,
        "letters": letters,
    }


def layers_of(widths, gated=False) -> list[list]:
    """The layers of each rank's part: where `gated`, ones whose output is narrower than their last nn.Linear."""
    if gated:
        return [[["Linear", width, 2 * after], ["GLU"]] for width, after in pairwise(widths)]
    return [[["Linear", width, after], ["Tanh"]] for width, after in pairwise(widths)]


def expected_stages(widths, rows, seed, gradients_there, layers, loss):
    total = sum(rows)
    parts = [build(stack) for stack in layers]
    for rank, part in enumerate(parts):
        fill(part, seed + rank)
    x, y = (torch.arange(total * widths[n], dtype=torch.float32).reshape(total, widths[n]) for n in (0, -1))
    mean = getattr(nn.functional, loss)(nn.Sequential(*parts)(torch.sin(x + seed)), torch.cos(y + seed))
    mean.backward()
    gradients = [[p.grad.numpy() + gradients_there for p in part.parameters()] for part in parts]
    return mean.item(), gradients, [[p.detach().numpy() for p in part.parameters()] for part in parts]


def stages(student, widths, rows, seed=3, sends_wait=False, gradients_there=False, layers=None, loss="mse_loss"):
    layers = layers or layers_of(widths)
    return student.run(run_stages, list(widths), list(rows), seed, sends_wait, gradients_there, layers, loss)


def told_stages(widths, rows, sends_wait=False) -> str:
    ranks = count_of(len(widths) - 1, "rank")
    sizes = ", ".join(map(str, rows))
    return f"{SLOW + ',' if sends_wait else 'With'} {ranks} and micro-batches of {sizes} samples"


def compare_stages(
    student, widths, rows, seed=3, *, sends_wait=False, gradients_there=False, gated=False, loss="mse_loss"
):
    layers = layers_of(widths, gated)
    with case(told_stages(widths, rows, sends_wait) + (f", loss_fn={loss}" if loss != "mse_loss" else "")):
        run = stages(student, widths, rows, seed, sends_wait, gradients_there, layers, loss)
        right, gradients, weights = expected_stages(widths, rows, seed, gradients_there, layers, loss)
        compare_losses(run["losses"], right, len(rows), loss)
        for rank, (mine, right) in enumerate(zip(run["gradients"], gradients, strict=True)):
            compare_rank(rank, mine, right, len(rows), gradients_there, run["actions"][rank])
        need_unchanged("stage_main", [] if run["rows"] == list(rows) else [0], "rows")
        for rank, (mine, before) in enumerate(zip(run["weights"], weights, strict=True)):
            same = all(np.array_equal(after, each) for after, each in zip(mine, before, strict=True))
            need(
                same,
                f"rank {rank} has changed its weights. Compute only gradients, because this function has no optimizer.",
            )


def compare_losses(losses, right, count, loss):
    for rank, found in enumerate(losses[:-1]):
        told = found if isinstance(found, str) else f"{found:.4g}"  # further digits differ from CPU to CPU
        need(
            found == "None",
            f"rank {rank} returned {told}. Only the last rank returns the loss. The others return None.",
        )
    found = losses[-1]
    need(
        not isinstance(found, str),
        f"the last rank returned {found}. Return the loss as a number or a one-element tensor.",
    )
    need(
        count == 1 or not math.isclose(found, count * right, rel_tol=1e-4),
        f"the last rank returned {found:.5f}, which is {count} times the mean over all samples, {right:.5f}.",
    )
    need(
        math.isclose(found, right, rel_tol=1e-4, abs_tol=1e-6),
        f"the last rank returned a loss of {found:.5f}, but the mean over all samples is {right:.5f}. Use loss_fn"
        f"{'' if loss == 'mse_loss' else f', here {loss},'} and weight each micro-batch by its number of samples.",
    )


def compare_rank(rank, mine, right, count, there, actions):
    backward = [action for action in actions if action.startswith("B")]
    need(
        all(each is not None for each in mine),
        f"a parameter of rank {rank}'s stage has no gradient. Does rank {rank} run backward, from the loss or from a "
        "received gradient of its output?",
    )
    own = [found - there for found in mine]
    wanted = [each - there for each in right]
    need(
        not (there and all(close(found, each) for found, each in zip(mine, wanted, strict=True))),
        f"rank {rank} has overwritten the existing gradients. Add the new gradients to them.",
    )
    need(
        count == 1 or not all(close(found, count * each) for found, each in zip(own, wanted, strict=True)),
        f"the gradients of rank {rank} are {count} times as large as they should be. Each of the {count} micro-batches "
        "has the weight of the whole batch.",
    )
    need(
        all(close(found, each) for found, each in zip(own, wanted, strict=True)),
        f"the gradients of rank {rank} are not those of the mean loss over all samples. The rank ran "
        f"{' '.join(backward)} for {micro_batches_of(count)}. Does each one get its own gradient, the oldest first?",
    )


def compare_actions(student, widths, rows, seed=3, sends_wait=False):
    """Each rank works in the order of 1F1B: where it does not, in what it differs."""
    ranks = len(widths) - 1
    with case(told_stages(widths, rows, sends_wait)):
        run = stages(student, widths, rows, seed, sends_wait)
        lists = [" ".join(map(str, row)) for row in one_f_one_b(ranks, len(rows)).lists]
        for rank, (actions, right) in enumerate(zip(run["actions"], lists, strict=True)):
            mine, most = in_flight(actions), in_flight(right.split())
            found = f"rank {rank} ran {' '.join(actions)}"
            need(
                mine <= most,
                f"rank {rank} has {micro_batches_of(mine)} in flight, but 1F1B allows at most {most}. Run a backward "
                f"pass before the next forward pass. In your order, {found}.",
            )
            need(
                mine == most,
                f"rank {rank} has at most {mine} in flight, but 1F1B has up to {most} micro-batches. Run forward "
                f"whenever 1F1B allows it. In your order, {found}.",
            )
            need(" ".join(actions) == right, f"{found}, but 1F1B runs {right}.")
        for rank, right in enumerate(lists):
            compare_letters(
                run["letters"], rank, in_flight(right.split()), f"The recorded order of rank {rank} is {right}."
            )


def compare_letters(letters, rank, most, said):
    """What a rank has sent and received goes with what it says that it did."""
    own = [(call, other - rank) for who, call, other in letters if who == rank]
    sent = crossed([call == "send" for call, way in own if way == 1])
    need(
        sent <= most,
        f"rank {rank} has sent {sent} outputs without receiving a gradient, but 1F1B allows at most {most}. {said}",
    )
    # The next input may be there before the gradient of the one before is sent.
    here = crossed([call == "recv" for call, way in own if way == -1])
    need(
        here <= most + 1,
        f"rank {rank} has received {here} inputs without sending a gradient, but 1F1B allows at most {most + 1}. "
        f"{said}",
    )


def crossed(steps) -> int:
    """How many more of the steps are true than false, at most, on the way from the first to the last."""
    return max(accumulate((1 if step else -1 for step in steps), initial=0))


def in_flight(actions) -> int:
    """The most micro-batches whose backward pass is still to come."""
    held = most = 0
    for action in actions:
        held += 1 if action.startswith("F") else -1
        most = max(most, held)
    return most


@ex4.fact("with two ranks, the loss and the gradients of both ranks are right")
def _(student):
    compare_stages(student, (4, 6, 3), (5, 5, 5))


@ex4.fact("with three ranks and a smaller last micro-batch, the loss and the gradients are right")
def _(student):
    compare_stages(student, (4, 6, 5, 3), (4, 4, 4, 2))


@ex4.fact("each rank runs its actions in the order of 1F1B", part="1F1B")
def _(student):
    compare_actions(student, (4, 6, 5, 3), (4, 4, 4, 4, 2))


@ex4.fact("in this order, the step finishes even if a send waits until the other rank receives", part="sends that wait")
def _(student):
    compare_stages(student, (4, 6, 3), (4, 4, 4, 2), sends_wait=True)
    compare_stages(student, (4, 6, 5, 3), (4, 4, 4, 4, 2), sends_wait=True)
    compare_actions(student, (4, 6, 5, 3), (4, 4, 4, 4, 2), sends_wait=True)


# --- ex5: a layout --------------------------------------------------------------------------------------------------

ex5 = lab.exercise(
    "ex5",
    star=True,
    title="Lay it out",
    hints=[
        "Leave out the times at first. Which values of data, pipeline, tensor and micro-batches use all GPUs and "
        "divide the layers and the batch? Print how many combinations there are.",
        "The first rank of the pipeline needs the most memory. How many micro-batches does it have in flight, and how "
        "many samples does each one have?",
        "A step repeats a stage's forward and backward pass, with the all-reduces in its layers, and ends with one "
        "all-reduce of the gradients. How many repetitions are there, including the bubble?",
        "The order of the dimensions determines which groups leave their node. Your where() finds them. Try all six "
        "orders.",
    ],
)

ENOUGH = 1.05  # times the step of the best layout that fits
STATE = 16  # bytes of a weight: bfloat16 with its gradient, and Adam's three in float32
GRADIENT = 2


@dataclass(frozen=True)
class Case:
    """A model and a cluster: what `plan` is given, and the profiles that stand behind the bandwidths."""

    model: str
    nodes: int
    per_node: int
    memory: float
    link: str
    network: str
    batch: int

    def given(self) -> tuple[dict, dict, int]:
        link, network = LINKS[self.link].collective, NETWORKS[self.network].collective
        cluster = {"nodes": self.nodes, "per_node": self.per_node, "memory": self.memory}
        return MODELS[self.model], cluster | {"link": link, "network": network}, self.batch

    @property
    def gpus(self) -> int:
        return self.nodes * self.per_node

    @property
    def capability(self) -> tuple[int, int]:
        """Of the GPUs on which the model's layers were measured."""
        return (8, 0) if self.model.endswith("A100") else (9, 0)

    def __str__(self) -> str:
        nodes = "one node" if self.nodes == 1 else f"{self.nodes} nodes"
        each = f"{self.per_node} GPUs with {self.memory / 1e9:.0f} GB ({self.link}, {self.network})"
        return f"For {self.model}, {nodes} of {each} and {self.batch} samples"


def _layers(layers: int, output: int, **shares) -> dict:
    kinds = ("weights", "kept", "forward", "backward", "fixed")
    layer = {int(t[1:]): dict(zip(kinds, values, strict=True)) for t, values in shares.items()}
    return {"layers": layers, "output": output, "layer": layer}


# One layer each of Llama-like models in bfloat16, on one of so many GPUs that share it: weights, bytes kept for a
# sample, seconds forward and backward for a sample, and those that both take for any number. A test makes them again.
MODELS = {
    "1B on H100": _layers(
        24,
        2_097_152,
        t1=(50_597_888, 51_909_120, 0.000132, 0.000275, 0.000357),
        t2=(25_300_992, 28_051_968, 0.000074, 0.000149, 0.000341),
        t4=(12_652_544, 16_123_392, 0.000041, 0.000082, 0.000332),
        t8=(6_328_320, 10_159_616, 0.000025, 0.000051, 0.000327),
        t16=(3_166_208, 7_177_728, 0.000018, 0.000035, 0.000317),
    ),
    "7B on H100": _layers(
        32,
        33_554_432,
        t1=(202_383_360, 830_505_472, 0.003347, 0.007138, 0.000505),
        t2=(101_195_776, 448_807_424, 0.001789, 0.003754, 0.000313),
        t4=(50_601_984, 257_958_400, 0.000962, 0.002014, 0.000263),
        t8=(25_305_088, 162_533_888, 0.000548, 0.001144, 0.000242),
        t16=(12_656_640, 114_821_632, 0.000343, 0.000709, 0.000301),
    ),
    "30B on A100": _layers(
        60,
        54_525_952,
        t1=(535_049_216, 1_350_599_168, 0.021442, 0.044786, 0.001182),
        t2=(267_531_264, 729_825_792, 0.011028, 0.022886, 0.000484),
        t4=(133_772_288, 419_439_104, 0.005694, 0.011808, 0.000265),
    ),
    "70B on H100": _layers(
        80,
        67_108_864,
        t1=(973_094_912, 1_879_081_472, 0.012696, 0.026261, 0.001272),
        t2=(486_555_648, 1_006_649_856, 0.006578, 0.013500, 0.000595),
        t4=(243_286_016, 570_434_048, 0.003424, 0.007024, 0.000353),
        t8=(121_651_200, 352_326_144, 0.001847, 0.003786, 0.000232),
        t16=(60_833_792, 243_272_192, 0.001058, 0.002166, 0.000176),
    ),
}


@dataclass(frozen=True)
class Step:
    """A training step, played: 1F1B with the times of the stages, what is sent, and NCCL's model of adding up."""

    case: Case
    sizes: tuple[tuple[str, int], ...]  # from the outermost to the innermost
    micro_batches: int

    def size(self, name: str) -> int:
        return dict(self.sizes)[name]

    @property
    def why_not(self) -> str:
        """Why there is no such step, or nothing."""
        model, _, batch = self.case.given()
        data, pipeline, tensor = (self.size(name) for name in ("data", "pipeline", "tensor"))
        if data * pipeline * tensor != self.case.gpus:
            return f"{data} x {pipeline} x {tensor} is {data * pipeline * tensor} GPUs, but there are {self.case.gpus}."
        if tensor not in model["layer"]:
            shares = ", ".join(map(str, model["layer"]))
            return f"tensor {tensor} does not divide the number of heads. model['layer'] has only {shares}."
        if model["layers"] % pipeline:
            return f"pipeline {pipeline} does not divide {model['layers']} layers."
        if batch % (data * self.micro_batches):
            return f"data {data} times micro_batches {self.micro_batches} does not divide {batch} samples."
        return ""

    @property
    def rows(self) -> int:
        return self.case.batch // (self.size("data") * self.micro_batches)

    @property
    def _layer(self) -> dict:
        return MODELS[self.case.model]["layer"][self.size("tensor")]

    @property
    def _layers(self) -> int:
        return MODELS[self.case.model]["layers"] // self.size("pipeline")

    def memory(self) -> dict[str, float]:
        """Bytes of the first rank of the pipeline, the fullest."""
        flying = min(self.size("pipeline"), self.micro_batches)
        kept = self._layers * self._layer["kept"] * self.rows
        return {"state": STATE * self._layers * self._layer["weights"], "kept": kept * flying}

    @property
    def fits(self) -> bool:
        return sum(self.memory().values()) <= self.case.memory

    def leaves(self, name: str) -> bool:
        return nodes_of(self.sizes, self.case.per_node)[name] > 1

    def _add_up(self, name: str, size: float) -> float:
        ranks, nodes = self.size(name), nodes_of(self.sizes, self.case.per_node)[name]
        links = LINKS[self.case.link], NETWORKS[self.case.network]
        return Fabric(ranks, nodes, *links, self.case.capability).seconds("all_reduce", int(size))

    @property
    def inside(self) -> float:
        """Seconds of one micro-batch's adding up within a stage's layers, in one direction."""
        return 2 * self._layers * self._add_up("tensor", self.rows * MODELS[self.case.model]["output"])

    @property
    def passes(self) -> tuple[float, float]:
        """Seconds of a stage for one micro-batch."""
        fixed = self._layer["fixed"] / 3  # a third of it forward
        forward = self._layers * (self.rows * self._layer["forward"] + fixed) + self.inside
        return forward, self._layers * (self.rows * self._layer["backward"] + 2 * fixed) + self.inside

    @property
    def once(self) -> float:
        """Seconds to add up gradients."""
        return self._add_up("data", GRADIENT * self._layers * self._layer["weights"])

    @property
    def at_least(self) -> float:
        return (self.micro_batches + self.size("pipeline") - 1) * sum(self.passes) + self.once

    def played(self):
        forward, backward = self.passes
        way = NETWORKS[self.case.network] if self.leaves("pipeline") else LINKS[self.case.link]
        sent = self.rows * MODELS[self.case.model]["output"] / self.size("tensor")
        schedule = one_f_one_b(self.size("pipeline"), self.micro_batches)
        return play(schedule, Costs(forward, backward, output=sent), way, source="played as in the grader")

    @property
    def seconds(self) -> float:
        return _seconds(self)

    def told(self) -> str:
        """Where its time goes."""
        inside = 2 * self.micro_batches * self.inside
        computing = self.micro_batches * sum(self.passes) - inside
        where = {name: "over the network" if self.leaves(name) else "inside a node" for name in ("tensor", "data")}
        return (
            f"computation {computing:.2f} s, tensor-parallel all-reduces {inside:.2f} s ({where['tensor']}), bubble "
            f"and sends {abs(self.seconds - self.once - inside - computing):.2f} s, all-reduce of gradients "
            f"{self.once:.2f} s ({where['data']})"
        )

    def __str__(self) -> str:
        sizes = " x ".join(f"{name} {size}" for name, size in self.sizes)
        return f"{sizes}, {micro_batches_of(self.micro_batches)}"


@cache
def _seconds(step: Step) -> float:
    return step.played().span + step.once


@cache
def nodes_of(sizes: tuple[tuple[str, int], ...], per_node: int) -> dict[str, int]:
    """In how many nodes a group of each dimension lies, the widest one."""
    mesh, found = mesh_of(dict(sizes)) // per_node, {}
    for axis, (name, size) in enumerate(sizes):
        found[name] = max(len(set(group)) for group in np.moveaxis(mesh, axis, -1).reshape(-1, size))
    return found


def divisors(number: int) -> list[int]:
    return [each for each in range(1, number + 1) if number % each == 0]


def all_steps(case: Case) -> Iterator[Step]:
    """Each step that there is, but of the orders in which a group lies in as many nodes only the first.

    Nothing else of an order makes a step faster or slower.
    """
    names = ("data", "pipeline", "tensor")
    for data, pipeline in product(divisors(case.gpus), repeat=2):
        tensor, rest = divmod(case.gpus, data * pipeline)
        if rest or case.batch % data:
            continue
        by_name = dict(zip(names, (data, pipeline, tensor), strict=True))
        different: dict[tuple[int, ...], tuple] = {}
        for order in permutations(names):
            sizes = tuple((name, by_name[name]) for name in order)
            nodes = nodes_of(sizes, case.per_node)
            different.setdefault(tuple(nodes[name] for name in names), sizes)
        for sizes in different.values():
            for micro_batches in divisors(case.batch // data):
                step = Step(case, sizes, micro_batches)
                if not step.why_not:
                    yield step


@cache
def best_of(case: Case) -> Step:
    """The fastest step that fits: of those that might be, each is played."""
    waiting = sorted((step for step in all_steps(case) if step.fits), key=lambda step: step.at_least)
    best = waiting[0]
    for step in waiting:
        if step.at_least >= best.seconds:
            break
        best = min(best, step, key=lambda each: each.seconds)
    return best


def ask_plan(lab, model, cluster, batch):
    from utils.exercises.facts.probes import called, kind_of

    model["layer"] = {int(tensor): share for tensor, share in model["layer"].items()}  # on its way keys became text
    found, changed = called(lab.plan, model, cluster, batch)
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        return kind_of(found)
    sizes, micro_batches = found
    if not isinstance(sizes, dict):
        return f"{kind_of(sizes)} as sizes"
    told = [[name, size] for name, size in sizes.items() if isinstance(name, str) and isinstance(size, int)]
    if isinstance(micro_batches, bool) or not isinstance(micro_batches, int):
        return f"{kind_of(micro_batches)} as the number of micro-batches"
    return [told, micro_batches, changed]


def planned(student, case_) -> Step:
    """The step that the student's plan asks for, where it is one."""
    found = student.run(ask_plan, *case_.given())
    need(found != "None", f"plan returned None. {pipelines_that_fit(case_)}")
    need(not isinstance(found, str), f"plan returned {found}. Return (sizes, micro_batches): a dict and an integer.")
    sizes, micro_batches, changed = found
    names = [name for name, _ in sizes]
    need(
        sorted(names) == ["data", "pipeline", "tensor"],
        f"sizes has integers for {', '.join(names) or 'no name'}. It needs an integer for each of "
        "'data', 'pipeline' and 'tensor'.",
    )
    told = ", ".join(f"{name} {size}" for name, size in sizes) + f" and {micro_batches_of(micro_batches)}"
    need(
        micro_batches > 0 and all(size > 0 for _, size in sizes),
        f"plan returned {told}. Every number must be at least 1.",
    )
    need_unchanged("plan", changed, "model", "cluster", "batch")
    return Step(case_, tuple((name, size) for name, size in sizes), micro_batches)


def pipelines_that_fit(case_) -> str:
    """Where a plan has found nothing: what it has not tried."""
    fitting = sorted({step.size("pipeline") for step in all_steps(case_) if step.fits})
    return f"Layouts with pipeline {', '.join(map(str, fitting))} fit. Try every divisor, not only powers of two."


def compare_plan(student, case_):
    with case(str(case_)):
        step = planned(student, case_)
        need(not step.why_not, f"plan returned {step}: {step.why_not}")
        memory = {kind: size / 1e9 for kind, size in step.memory().items()}
        flying = micro_batches_of(min(step.size("pipeline"), step.micro_batches))
        need(
            step.fits,
            f"the layout ({step}) does not fit. The pipeline's first rank needs {memory['state']:.1f} GB for weights, "
            f"gradients and optimizer state, and {memory['kept']:.1f} GB for the activations of {flying} in flight "
            f"({count_of(step.rows, 'sample')} each). A GPU has {case_.memory / 1e9:.0f} GB.",
        )
        best = best_of(case_)
        need(
            step.seconds <= ENOUGH * best.seconds,
            f"the layout ({step}) takes {step.seconds:.2f} s, {step.seconds / best.seconds - 1:.1%} more than the best "
            f"layout that fits ({best.seconds:.2f} s). The parts of your step are {step.told()}.",
        )


LARGE = Case("70B on H100", 8, 8, 80e9, "nvlink4", "400G", 64)


@ex5.fact("plan finds a good layout on four nodes with a fast network, for a model that nearly fits on one GPU")
def _(student):
    compare_plan(student, Case("7B on H100", 4, 8, 80e9, "nvlink4", "400G", 64))


@ex5.fact("plan finds a good layout for large models, for which few layouts fit, even on nodes of four GPUs")
def _(student):
    compare_plan(student, LARGE)
    compare_plan(student, Case("30B on A100", 8, 4, 80e9, "nvlink3", "100G", 32))


@ex5.fact("plan finds a good layout on two nodes with a slow network")
def _(student):
    compare_plan(student, Case("7B on H100", 2, 8, 80e9, "nvlink4", "25G", 32))


@ex5.fact("plan finds a good layout for a small model, for which small micro-batches are inefficient")
def _(student):
    compare_plan(student, Case("1B on H100", 1, 8, 24e9, "pcie4", "400G", 128))


@ex5.fact("plan finds a good layout for 24 GPUs and 60 layers, which are not powers of two")
def _(student):
    compare_plan(student, Case("30B on A100", 6, 4, 80e9, "nvlink3", "100G", 48))


@ex5.timeline
def _(student):
    return asdict(planned(student, LARGE).played().timeline)


@ex5.scored(par=100, unit="% of the speed of the best layout for a large model")
def _(student):
    return 100 * best_of(LARGE).seconds / planned(student, LARGE).seconds
