"""Lab 18's visible facts: what `check("ex1")` tells the learner, and the first part of the grade.

Traces and dumps come from small simulations (utils/kits/job_traces.py, job_dumps.py) with a fault that the fact knows.
Ranks are threads that take turns (utils/kits/ranks_in_turns.py). A probe runs beside the student's code and tells plain
data; the fact judges it here.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import nn

from utils.exercises.facts import Lab, case, need
from utils.exercises.facts.probes import fill
from utils.kits.job_dumps import JobCall, JobHang, dumped_job, transformer_calls
from utils.kits.job_traces import Hiccup, JobFault, kernels_of, seconds_of_job, traced_job
from utils.kits.parallel_block import ParallelBlock, WholeBlock
from utils.kits.ranks_in_turns import in_turns

lab = Lab("lab18", "Slow, wrong or dead")


def counted(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def need_fields(name: str, found: Any, kinds: dict[str, str]) -> None:
    """`found` is a dict with these keys. What kind_of said of it, if it is none."""
    need(isinstance(found, dict), f"{name} returned {found}. Return a dict.")
    need(
        set(found) == set(kinds),
        f"{name} returned a dict with the keys {sorted(found)}. The keys must be {', '.join(sorted(kinds))}.",
    )
    for key, kind in kinds.items():
        need(found[key]["is"] == kind, f"{key!r} is {found[key]['said']}. It must be {kind}.")


def run_diagnosis(lab, name, recordings):
    """What the student's function says of the recordings: each value with its kind."""
    from utils.exercises.facts.probes import called, kind_of

    function = lab.slow_rank if name == "slow_rank" else lab.why_it_hangs
    found, changed = called(function, recordings)
    if changed:
        return {"found": f"{kind_of(found)}, and changed what it was given", "changed": True}
    if not isinstance(found, dict):
        return {"found": kind_of(found), "changed": False}
    told = {}
    for key, value in found.items():
        if isinstance(value, bool) or not isinstance(value, (int, float, str, list)):
            told[str(key)] = {"is": kind_of(value), "said": kind_of(value), "value": None}
        elif isinstance(value, list):
            whole = all([isinstance(one, int) and not isinstance(one, bool) for one in value])
            kind = "a list of whole numbers" if whole else "a list"
            told[str(key)] = {"is": kind, "said": kind, "value": [int(one) for one in value] if whole else None}
        elif isinstance(value, str):
            told[str(key)] = {"is": "text", "said": "text", "value": str(value)}
        elif isinstance(value, int):
            told[str(key)] = {"is": "a whole number", "said": "a whole number", "value": int(value)}
        else:
            told[str(key)] = {"is": "a number", "said": "a number", "value": float(value)}
    return {"found": told, "changed": False}


# --- ex1: a run that is slow ----------------------------------------------------------------------------------------

ex1 = lab.exercise(
    "ex1",
    points=3,
    title="Which rank is slow, and why",
    hints=[
        "An all-reduce begins on each rank when this rank arrives, and ends on all at the same time. Which rank has "
        "the shortest all-reduces? The transfer begins when the last rank has arrived.",
        "Compare the n-th kernel of each name on one rank with the same kernel on the other ranks, and the n-th "
        "all-reduce of a group with the n-th of a group that sends the same amount. The median is the usual time.",
        "Each cause costs a number of microseconds: by how much a rank's kernels take longer than usual, a rank's GPU "
        "is idle longer than usual, or a group's all-reduces take longer than usual, from the last arrival on. The "
        "largest number belongs to the cause.",
    ],
    likely={
        "unhashable type": "A list cannot be a key of a dict. Process Group Ranks is text and can be one.",
        "KeyError": "Do you count the events of a rank? They are not sorted: sort them by ts first.",
    },
)

CAUSES = ("gpu", "host", "network")
NEAR = 0.04  # of the share


class Timeline:
    """What the traces say of a claim, so that a message can test it."""

    def __init__(self, traces: list[dict]):
        self.kernels: dict[tuple, dict[int, float]] = {}
        self.calls: dict[tuple, dict[int, tuple[float, float]]] = {}
        self.busy, self.idle = [], []
        for rank, trace in enumerate(traces):
            events, seen = sorted(kernels_of(trace), key=lambda event: event["ts"]), Counter()
            spent = sum(event["dur"] for event in events)
            self.busy.append(spent)
            self.idle.append(events[-1]["ts"] + events[-1]["dur"] - events[0]["ts"] - spent)
            for event in events:
                group = event["args"].get("Process Group Ranks")
                kind = event["name"], group
                seen[kind] += 1
                if group:
                    span = event["ts"], event["ts"] + event["dur"]
                    self.calls.setdefault((group, event["args"]["In msg nelems"], seen[kind]), {})[rank] = span
                else:
                    self.kernels.setdefault((*kind, seen[kind]), {})[rank] = event["dur"]
        self.groups = {group: ast.literal_eval(group) for group, _, _ in self.calls}

    def alike(self) -> int:
        """How many groups there are for each of those that make the largest all-reduces."""
        most = max(size for _, size, _ in self.calls)
        return len({group for group, size, _ in self.calls if size == most})

    def longer_kernels(self, rank: int) -> list[float]:
        """By how much each kernel of a rank takes longer than usual."""
        return [took[rank] - median(took.values()) for took in self.kernels.values()]

    def idle_longer(self, rank: int) -> float:
        return self.idle[rank] - median(self.idle)

    def in_collectives(self, rank: int) -> float:
        return sum(spans[rank][1] - spans[rank][0] for spans in self.calls.values() if rank in spans)

    def waited(self, ranks: list[int]) -> float:
        """How long the first of these ranks waits for the last one, in all largest all-reduces of their group."""
        most = max(size for _, size, _ in self.calls)
        starts = [
            [start for start, _ in spans.values()]
            for (group, size, _), spans in self.calls.items()
            if (self.groups[group], size) == (ranks, most)
        ]
        return sum(max(each) - min(each) for each in starts)

    def passing(self, group: str) -> float:
        """By how much the collectives of a group take longer than those of like groups, from the last arrival on."""
        total = 0.0
        for (name, size, number), spans in self.calls.items():
            if name == group:
                like = [
                    max(end for _, end in other.values()) - max(start for start, _ in other.values())
                    for (_, other_size, other_number), other in self.calls.items()
                    if (other_size, other_number) == (size, number)
                ]
                took = max(end for _, end in spans.values()) - max(start for start, _ in spans.values())
                total += took - median(like)
        return total


def compare_slow(student, nodes: int, per_node: int, fault: JobFault, *, seed: int, once: Hiccup | None = None, **more):
    """`once` is the cause if it costs more than `fault`, which must then be small."""
    args = {**more, "fault": fault, "hiccup": once, "seed": seed}
    traces = traced_job(nodes, per_node, **args)
    seconds = seconds_of_job(traces)
    shares = {
        left_out: 1 - seconds_of_job(traced_job(nodes, per_node, **{**args, left_out: None})) / seconds
        for left_out in ("fault", "hiccup")
    }
    place, cause = next(
        (given[0], cause)
        for given, cause in zip(fault, ("gpu", "host", "host", "network"), strict=True)
        if given is not None
    )
    if once and shares["hiccup"] > shares["fault"]:
        place, cause, share = once.rank, "gpu", shares["hiccup"]
    else:
        share = shares["fault"]
    ranks = list(range(place, nodes * per_node, per_node)) if cause == "network" else [place]
    with case(f"On {counted(nodes, 'node')} of {per_node} GPUs"):
        run = student.run(run_diagnosis, "slow_rank", traces)
        need(not run["changed"], "slow_rank changed the traces. Leave them as they are.")
        kinds = {"ranks": "a list of whole numbers", "cause": "text", "share": "a number"}
        need_fields("slow_rank", run["found"], kinds)
        mine = {key: told["value"] for key, told in run["found"].items()}
        need(mine["cause"] in CAUSES, f"the cause is {mine['cause']!r}. It must be one of {', '.join(CAUSES)}.")
        need(
            all(0 <= rank < nodes * per_node for rank in mine["ranks"]) and mine["ranks"],
            f"the ranks are {mine['ranks']}, of {nodes * per_node} ranks.",
        )
        if (sorted(mine["ranks"]), mine["cause"]) != (ranks, cause):
            need(
                False,
                f"you say {mine['cause']!r} of {ranks_in_words(mine['ranks'])}. {why_not(Timeline(traces), mine)}",
            )
        need(mine["ranks"] == ranks, f"the ranks are {mine['ranks']}. Sort them.")
        need_share(mine, share, Timeline(traces), seconds, more.get("steps", 3))


def ranks_in_words(ranks: list[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"


def why_not(timeline: Timeline, mine: dict) -> str:
    """What the traces say against a claim, without the right one."""
    ranks, cause = sorted(mine["ranks"]), mine["cause"]
    total = max(timeline.busy)
    if cause == "network":
        group = next((text for text, members in timeline.groups.items() if members == ranks), None)
        if group is None:
            return (
                "These are not the ranks of a group. Times alone do not tell which of a group's ranks has the slow "
                "link, so name all of them."
            )
        if timeline.passing(group) < 0.02 * total:
            return (
                "From the arrival of the last rank on, the all-reduces of this group take as long as those of "
                "similar groups. What makes a collective long before that?"
            )
        return "Another cause costs more. Add up all steps."
    if len(ranks) > 1:
        return f"The cause {cause!r} has one rank."
    [rank] = ranks
    waits = timeline.in_collectives(rank) > median(map(timeline.in_collectives, range(len(timeline.idle))))
    waits_words = " Its collectives are long because it arrives early and waits in them." if waits else ""
    if cause == "gpu":
        longer = timeline.longer_kernels(rank)
        if max(longer) > 200 and sum(longer) - max(longer) < 0.02 * total:
            return "One of its kernels takes longer once, but this costs less than the right cause. Add up all steps."
        if sum(longer) < 0.02 * total:
            return (
                f"Its kernels take as long as the same kernels of other ranks.{waits_words or ' When do they start?'}"
            )
    elif timeline.idle_longer(rank) < 0.02 * total:
        return f"Its GPU is not idle for longer than the others' GPUs.{waits_words or ' What does it run meanwhile?'}"
    return "Another cause costs more. Add up all steps."


def need_share(diagnosis: dict, share: float, timeline: Timeline, seconds: float, steps: int) -> None:
    mine, ranks = diagnosis["share"], diagnosis["ranks"]
    if abs(mine - share) <= NEAR:
        return
    why = "Add up the time that the cause adds to the run, and divide by the time of the whole run."
    means = [share * (1 - 1 / count) for count in (len(timeline.idle), timeline.alike())]
    waited = timeline.waited(ranks) / 1e6 / seconds if diagnosis["cause"] == "network" else 0.0
    if waited > NEAR and share < mine <= share + waited + NEAR / 2:
        why = "It includes the time that its ranks wait for the last one. Begin to count when that rank has arrived."
    elif abs(mine - share / (1 - share)) <= 0.015:
        why = "It is the share of a run without the cause. Divide by the time that the run takes now."
    elif abs(mine - (1 - share)) <= NEAR:
        why = "It is the share that remains without the cause. Return the share that the cause costs."
    elif abs(mine - 100 * share) <= 100 * NEAR:
        why = "It is in percent. Return a number from 0 to 1."
    elif diagnosis["cause"] == "network" and mine < share:
        why = (
            "It is too small. If you use whole all-reduces, the other ranks wait for the slow group at the next "
            "all-reduce, so their durations grow, too. Count from the last arrival, and add up all steps."
        )
    elif abs(mine - share / steps) <= NEAR / steps:
        why = "It is about the cost of one step. Add up all steps."
    elif abs(mine - share * steps) <= NEAR * steps:
        why = f"It is about {steps} times the share. There are {steps} steps: divide by the time of all steps."
    elif abs(mine - share * 1e6 * seconds) <= NEAR * 1e6 * seconds:
        why = "It is in microseconds. Divide by the time of the run."
    elif any(abs(mine - mean) <= 0.01 for mean in means):
        why = "It is about the result of a comparison with the mean. The mean includes the slow one: take the median."
    elif abs(mine - share * (steps - 1) / steps) <= 0.01:
        why = "It is about the cost of all steps but one. Add up all steps."
    elif abs(mine - share / 2) <= 0.01:
        why = (
            "It is about half of the right share. Between two ranks, the median is halfway: compare with more ranks. "
            "Also compare only kernels, because the all-reduces of a slow rank are shorter."
        )
    elif abs(mine - share / len(timeline.idle)) <= 0.005:
        why = "It is a share of all GPUs' time. When one rank loses time, all lose it: divide by the time of the run."
    elif mine > share:
        why = "It is too large. Only time beyond the usual is lost, and time that all ranks lose at once counts once."
    need(False, f"the ranks and the cause are right, but the share is {mine:.3f}. {why}")


@ex1.fact("with one slow GPU among eight, the rank, the cause and the share are right")
def _(student):
    compare_slow(student, 2, 4, JobFault(slow_gpu=(5, 1.6)), seed=1)


@ex1.fact("with a host that launches late, the rank, the cause and the share are right")
def _(student):
    compare_slow(student, 2, 4, JobFault(slow_host=(2, 560.0)), seed=2)


@ex1.fact("with a slow link between nodes, the ranks of its group are right, too")
def _(student):
    compare_slow(student, 2, 4, JobFault(slow_network=(1, 3.5)), seed=3)


@ex1.fact("with a rank that is slow once and another one that is slow in each step, the latter is named")
def _(student):
    compare_slow(student, 3, 3, JobFault(slow_gpu=(4, 1.35)), seed=4, steps=5, once=Hiccup(7, 0, 650.0))


# --- ex2: a run that is dead ----------------------------------------------------------------------------------------

ex2 = lab.exercise(
    "ex2",
    points=3,
    title="Why it hangs",
    hints=[
        "Make a table first: for each group and each number in it, the call of each rank. A call has three properties: "
        "its name, its sizes and its line.",
        "Of the numbers of a group at which the ranks' calls differ, which one matters? Later differences are only "
        "consequences.",
        "If all calls with the same number are the same, some rank does not call at all. Which ranks have no dump? "
        "Which rank has completed all that it has launched, while others wait?",
    ],
    likely={
        "StopIteration": "A frame outside of PyTorch was not found. Is its file below torch/?",
    },
)

HANGS = ("died", "absent", "skipped", "other")


def evidence(entry: dict) -> str:
    frame = next(frame for frame in entry["frames"] if "/torch/" not in frame["filename"])
    return f"{frame['filename']}:{frame['line']}"


ELSEWHERE = {
    "/app/model.py": "/usr/lib/python3.12/site-packages/torchtrain/model.py",
    "/app/train.py": "/home/me/train.py",
}


def moved(dumps: list[dict], line: str) -> tuple[list[dict], str]:
    """The dumps in another order, of a program that lies elsewhere, with fewer of PyTorch's frames in some entries."""
    for dump in dumps:
        for entry in dump["entries"]:
            ours = [frame for frame in entry["frames"] if "/torch/" not in frame["filename"]]
            theirs = [frame for frame in entry["frames"] if frame not in ours][entry["collective_seq_id"] % 2 :]
            entry["frames"] = theirs + [{**f, "filename": ELSEWHERE.get(f["filename"], f["filename"])} for f in ours]
    place, _, number = line.rpartition(":")
    return dumps[::-1], f"{ELSEWHERE.get(place, place)}:{number}"


def compare_hang(
    student,
    nodes: int,
    per_node: int,
    hang: JobHang,
    *,
    seed: int,
    steps=6,
    layers=2,
    keep=2000,
    elsewhere=False,
):
    several = nodes > 1
    calls = transformer_calls(steps, layers, data=several, norm=several)
    dumps = dumped_job(nodes, per_node, calls, hang, keep=keep, seed=seed)
    line = hang.instead.place if hang.instead else calls[hang.call].place
    if elsewhere:
        dumps, line = moved(dumps, line)
    records = f"the last {keep} records" if keep < 2000 else "all records"
    with case(f"With {counted(nodes, 'node')} of {per_node} GPUs and {records} of each rank"):
        run = student.run(run_diagnosis, "why_it_hangs", dumps)
        need(not run["changed"], "why_it_hangs changed the dumps. Leave them as they are.")
        need_fields("why_it_hangs", run["found"], {"rank": "a whole number", "cause": "text", "line": "text"})
        mine = {key: told["value"] for key, told in run["found"].items()}
        need(mine["cause"] in HANGS, f"the cause is {mine['cause']!r}. It must be one of {', '.join(HANGS)}.")
        need(0 <= mine["rank"] < nodes * per_node, f"the rank is {mine['rank']}, of {nodes * per_node} ranks.")
        need(mine["rank"] == hang.rank, f"you blame rank {mine['rank']}. {why_innocent(dumps, mine)}")
        need(
            mine["cause"] == hang.cause,
            f"the rank is right, but the cause is not {mine['cause']!r}. {why_no(mine, hang)}",
        )
        if mine["line"] != line:
            need(
                False,
                f"the rank and the cause are right, but the line is {mine['line']!r}. {why_line(dumps, mine, hang)}",
            )


def waits(dump: dict) -> bool:
    return any(entry["state"] != "completed" for entry in dump["entries"])


def why_innocent(dumps: list[dict], mine: dict) -> str:
    """What the dumps say against blaming this rank."""
    own = next((dump for dump in dumps if dump["rank"] == mine["rank"]), None)
    if own is None:
        return "Its process died."
    if mine["cause"] == "died":
        return "It has a dump, so its process lived."
    since = {d["rank"]: [e["time_created_ns"] for e in d["entries"] if e["state"] == "started"] for d in dumps}
    first = min((times[0], rank) for rank, times in since.items() if times)[1]
    if mine["cause"] == "absent" and waits(own):
        return "It waits in a collective itself. Which rank has not called that one?"
    if mine["rank"] == first:
        return "It waits for the longest time, so it is the first to report a time-out. For which rank does it wait?"
    if waits(own):
        return "Up to the call in which it waits, it made the calls that most ranks of its groups made."
    return "It made all calls that its groups made."


def why_no(mine: dict, hang: JobHang) -> str:
    if mine["cause"] == "died":
        return "This rank has a dump, so its process lived."
    if hang.cause == "died":
        return "Does this rank have a dump?"
    if mine["cause"] == "absent":
        return "This rank's last call does not complete: it takes part in a collective. In which one?"
    if hang.cause == "absent":
        return "All calls of this rank match those of the others with the same number in the same group."
    return "Is this rank's call one that the other ranks of the group make later, with the next numbers?"


def why_line(dumps: list[dict], mine: dict, hang: JobHang) -> str:
    entries = [(dump["rank"], entry) for dump in dumps for entry in dump["entries"]]
    files = {f"{frame['filename']}:{frame['line']}": frame["filename"] for _, e in entries for frame in e["frames"]}
    states = {entry["state"] for _, entry in entries if evidence(entry) == mine["line"]}
    if mine["line"] not in files:
        return "No frame has this line. Write it as file:line, with the file's whole name."
    if "/torch/" in files[mine["line"]]:
        return "This line is PyTorch's. Take the first frame of the program."
    if not states:
        return "This frame only leads to the call. The frames begin with the innermost one."
    if hang.cause in ("died", "absent"):
        if "started" in states:
            return "Ranks wait there, but others have waited longer."
        return "No rank waits there: its calls have completed, or are scheduled behind the one that waits."
    if hang.cause == "other" and not any(rank == hang.rank and evidence(e) == mine["line"] for rank, e in entries):
        return "This rank has no call from that line."
    return (
        "Look at the first number at which this rank's call differs. Compare lines, too. You need the line that the "
        "others called from."
        if hang.cause == "skipped"
        else "Look at the first number at which this rank's call differs. Compare lines, too. You need its own line."
    )


@ex2.fact("with one group of four ranks and a rank that died, the rank, the cause and the line are right")
def _(student):
    compare_hang(student, 1, 4, JobHang(2, "died", 16), seed=1)
    compare_hang(student, 1, 4, JobHang(3, "died", 9), seed=7)


@ex2.fact("with a rank that calls another collective, or skips one, the rank, the cause and the line are right")
def _(student):
    compare_hang(student, 1, 4, JobHang(1, "other", 13, JobCall("tensor", "all_reduce", [8191, 4096], MLP)), seed=2)
    compare_hang(student, 1, 4, JobHang(3, "skipped", 12), seed=3)


@ex2.fact("rank, cause and line are right with groups of several kinds, and with dumps that have only the last records")
def _(student):
    compare_hang(student, 3, 3, JobHang(4, "absent", 21), seed=4, keep=14)
    compare_hang(student, 3, 3, JobHang(7, "skipped", 19), seed=5, keep=14)


MLP = "/app/model.py:104"


@ex2.fact("with a call that only one rank makes, the rank, the cause and the line are right")
def _(student):
    logged = JobCall("world", "all_reduce", [1], "/app/train.py:72", "log_loss")
    compare_hang(student, 3, 4, JobHang(0, "other", 15, logged, before=True), seed=6)


# --- ex3: a run that is wrong ---------------------------------------------------------------------------------------

ex3 = lab.exercise(
    "ex3",
    points=2,
    title="The loss differs with tensor parallelism",
    hints=[
        "Print the gradient of norm.weight on each rank. Are they the same? On which tokens does each depend?",
        "A norm weight's gradient is a sum over tokens, and each rank has a part of them.",
        "The square of the norm is the sum of squares over all parameters of the whole model. Which parameters does "
        "only one rank have, and which does each rank have?",
    ],
    likely={
        "no rank can go on": "The ranks make different calls. Each rank must call the same collectives.",
        "in all_reduce, rank": "The ranks make different calls. Each rank must call the same collectives.",
        "'NoneType'": "A frozen parameter has no gradient.",
    },
)


def run_steps(lab, sizes, state, ranks, batches, max_norm, rate, momentum, decay, frozen, wrapped):
    import torch

    from utils.exercises.facts.probes import array, kind_of
    from utils.kits.parallel_block import ParallelBlock
    from utils.kits.ranks_in_turns import in_turns

    class Wrapped(torch.nn.Module):
        def __init__(self, block):
            super().__init__()
            self.inner = block

        def forward(self, x, y):
            return self.inner(x, y)

    whole = {name: torch.from_numpy(values) for name, values in state.items()}
    called = []

    def main(rank):
        block = ParallelBlock(sizes[0], sizes[1], sizes[2], whole)
        for name, parameter in block.named_parameters():
            if name in frozen:
                parameter.requires_grad_(False)
        model = Wrapped(block) if wrapped else block
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, weight_decay=decay)
        told, after = [], []
        for x, y in batches:
            found = lab.train_step(model, optimizer, torch.from_numpy(x), torch.from_numpy(y), max_norm)
            if not isinstance(found, tuple) or len(found) != 2:
                return {"wrong": f"train_step returned {kind_of(found)}. Return the loss and the norm."}
            for one in found:
                if not isinstance(one, float):
                    return {"wrong": f"train_step returned {kind_of(one)} instead of a number. Return two floats."}
            told.append([float(one) for one in found])
            after.append({name: array(parameter).copy() for name, parameter in block.named_parameters()})
        return {"wrong": "", "told": told, "after": after}

    found = in_turns(main, ranks, called=called)
    for rank, each in enumerate(found):
        each["given"] = sum([size for by, _, size, *_ in called if by == rank])
    return found


SHARDED = {"up.weight": 0, "up.bias": 0, "down.weight": 1}  # the dimension
SEQUENCE = ("norm.weight", "norm.bias", "down.bias")


def parted_gradients(model: WholeBlock, x, y, ranks: int) -> list[dict[str, torch.Tensor]]:
    """The gradients that each rank has after backward, before any is summed."""
    own = [{name: dict(model.named_parameters())[name].detach().clone().requires_grad_() for name in SEQUENCE}]
    own += [{name: value.detach().clone().requires_grad_() for name, value in own[0].items()} for _ in range(ranks - 1)]
    normed = [
        nn.functional.layer_norm(part, part.shape[1:], mine["norm.weight"], mine["norm.bias"])
        for part, mine in zip(x.chunk(ranks), own, strict=True)
    ]
    inner = nn.functional.gelu(model.up(torch.cat(normed))) @ model.down.weight.T
    bias = torch.cat([mine["down.bias"].expand_as(part) for part, mine in zip(x.chunk(ranks), own, strict=True)])
    loss = nn.functional.cross_entropy(model.head(x + inner + bias), y)
    whole = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    whole = {name: parameter for name, parameter in whole.items() if name not in SEQUENCE}
    found = dict(zip(whole, torch.autograd.grad(loss, [*whole.values()], retain_graph=True), strict=True))
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    parts = []
    for rank, mine in enumerate(own):
        gradients = torch.autograd.grad(loss, [*mine.values()], retain_graph=True)
        part = {name: each for name, each in zip(mine, gradients, strict=True) if name in trained}
        for name, each in found.items():
            part[name] = each.chunk(ranks, SHARDED[name])[rank] if name in SHARDED else each
        parts.append(part)
    return parts


def squares(gradients: dict, names) -> float:
    return sum(float(each.square().sum()) for name, each in gradients.items() if name in names)


def wrong_norms(parts: list[dict], rank: int) -> Iterator[tuple[float, str]]:
    """The norm by some mistakes, on this rank, and what to say."""
    names, ranks = [*parts[0]], len(parts)
    alike = [name for name in names if name not in SHARDED]
    summed = {name: torch.stack([part[name] for part in parts]).sum(0) for name in SEQUENCE if name in names}
    right = [{**part, **summed} for part in parts]
    shards = sum(squares(part, SHARDED) for part in parts)
    twice = "It counts replicated parameters {} times. Count them once."
    alone = "It is the norm of this rank's own gradients. The shards of the other ranks belong to it, too."
    before = "It is the norm of gradients before those of the ranks' own tokens are summed."
    yield sum(squares(part, names) for part in right) ** 0.5, twice.format(ranks)
    yield squares(right[rank], names) ** 0.5, alone
    yield squares(parts[rank], names) ** 0.5, f"{alone} {before}"
    yield (shards + squares(parts[rank], alike)) ** 0.5, before
    yield sum(squares(part, names) for part in parts) ** 0.5, f"{twice.format(ranks)} {before}"
    yield (
        (
            sum(squares(part, [*SHARDED, *SEQUENCE]) for part in parts)
            + squares(parts[rank], ["head.weight", "head.bias"])
        )
        ** 0.5,
        before,
    )
    yield shards**0.5, "The replicated parameters are missing from it."
    yield squares(right[rank], alike) ** 0.5, "The shards are missing from it."
    yield sum(squares(part, names) ** 0.5 for part in right), "It is a sum of norms. Add up squares."
    yield (
        (shards**0.5) + squares(right[rank], alike) ** 0.5,
        "It is a sum of norms. Add up squares, and take the root of all.",
    )
    yield shards + squares(right[rank], alike), "It is the square of the norm."
    yield (
        (sum(squares(part, names) for part in right) / ranks) ** 0.5,
        "It is a mean of the ranks' squares. Add up those of the shards.",
    )
    over_all = {name: torch.stack([part[name] for part in parts]).sum(0) for name in names}
    everything = (ranks * squares(over_all, SHARDED) + squares(over_all, alike)) ** 0.5
    yield (
        everything,
        "It is the norm of gradients that are all summed over the ranks. A shard's own gradient is whole already.",
    )
    yield (
        everything / ranks,
        "It is the norm of gradients that are all averaged over the ranks. Each shard has its own gradient.",
    )
    yield (
        sum(squares(part, SHARDED) ** 0.5 for part in parts)
        + sum(float(each.norm()) for name, each in right[rank].items() if name in alike),
        "It is a sum of norms. Add up squares.",
    )
    means = {name: value / ranks for name, value in summed.items()}
    yield (
        (shards + squares({**right[rank], **means}, alike)) ** 0.5,
        "It is the norm of means. A gradient of the ranks' own tokens must be summed.",
    )
    again = {
        name: each * (ranks if name not in SHARDED and name not in SEQUENCE else 1)
        for name, each in right[rank].items()
    }
    yield (
        (shards + squares(again, alike)) ** 0.5,
        "It includes sums over all ranks of gradients for which each rank has computed all tokens: these are whole "
        "already.",
    )
    for name in summed:
        one = {**right[rank], name: parts[rank][name]}
        yield (
            (shards + squares(one, alike)) ** 0.5,
            f"The gradient of {name} is not summed in this norm. Use the marks.",
        )
    ours, head = squares(right[rank], SEQUENCE), squares(right[rank], ["head.weight", "head.bias"])
    yield (
        (shards + ranks * ours + head) ** 0.5,
        f"It counts parameters marked sequence_parallel {ranks} times. Each rank has their whole sum: count it once.",
    )
    yield (shards + head) ** 0.5, "The parameters marked sequence_parallel are missing from it."
    yield (
        (ranks * squares(parts[rank], SHARDED) + ours + head) ** 0.5,
        "It is as if all ranks had the shards of this one.",
    )
    roots = sum(squares(part, SHARDED) ** 0.5 for part in parts)
    yield (roots**2 + ours + head) ** 0.5, "It uses a sum of the norms of shards. Add up squares."
    yield (
        (shards + ours + head) ** 0.5 / ranks,
        f"It is the right norm divided by {ranks}. Each rank has the loss of all tokens.",
    )


def compare_steps(
    student,
    ranks,
    sizes,
    *,
    tokens,
    steps=3,
    max_norm=0.5,
    rate=0.3,
    momentum=0.9,
    decay=0.0,
    frozen=(),
    wrapped=False,
    seed=1,
):
    hidden, _, classes = sizes
    model = WholeBlock(*sizes)
    fill(model, seed)
    state = {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
    numbers = np.random.default_rng(seed)
    batches = [
        (numbers.normal(size=(tokens, hidden)).astype("float32"), numbers.integers(0, classes, tokens))
        for _ in range(steps)
    ]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, weight_decay=decay)
    words = f", {' and '.join(frozen)} frozen" if frozen else ""
    words += f", weight_decay={decay}" if decay else ""
    words += ", inside another module" if wrapped else ""
    with case(f"On {counted(ranks, 'rank')} with {tokens} tokens and max_norm={max_norm}{words}"):
        given = [list(b) for b in batches], max_norm, rate, momentum, decay, list(frozen), wrapped
        run = student.run(run_steps, list(sizes), state, ranks, *given)
        for rank, found in enumerate(run):
            need(not found["wrong"], f"on rank {rank}, {found['wrong']}")
        for step, (x, y) in enumerate(batches):
            parts = parted_gradients(model, torch.from_numpy(x), torch.from_numpy(y), ranks)
            optimizer.zero_grad()
            loss = model(torch.from_numpy(x), torch.from_numpy(y))
            loss.backward()
            norm = float(nn.utils.clip_grad_norm_(model.parameters(), max_norm))
            optimizer.step()
            for rank, found in enumerate(run):
                need_step(rank, step, found, loss.item(), norm, parts, max_norm)
                need_weights(rank, step, found["after"][step], model, ranks, norm <= max_norm)
        if ranks > 1:
            need_sums([found["given"] for found in run], sizes, state, ranks, batches, frozen)


def need_sums(given, sizes, state, ranks, batches, frozen):
    """Each rank gives at least the gradients that must be summed to collectives, besides those of the block."""
    whole = {name: torch.from_numpy(values) for name, values in state.items()}
    called = []

    def main(_):
        block = ParallelBlock(sizes[0], sizes[1], sizes[2], whole)
        for name, parameter in block.named_parameters():
            parameter.requires_grad_(name not in frozen)
        for x, y in batches:
            block(torch.from_numpy(x), torch.from_numpy(y)).backward()

    in_turns(main, ranks, called=called)
    summed = 4 * len(batches) * sum(whole[name].numel() for name in SEQUENCE if name not in frozen)
    for rank, mine in enumerate(given):
        more = mine - sum(one.bytes for one in called if one.rank == rank)
        need(
            more >= summed,
            f"the numbers are right, but train_step of rank {rank} gives {more:,} bytes to collectives of its own in "
            f"{counted(len(batches), 'step')}. The gradients that must be summed over the ranks take {summed:,}.",
        )


def need_step(rank, step, found, loss, norm, parts, max_norm):
    mine, own = found["told"][step]
    told = f"in step {step + 1} on rank {rank}"
    need(
        abs(mine - loss) <= 1e-4 * abs(loss),
        f"{told}, the loss is {mine:.5f}. On one device it is {loss:.5f}. Each rank has the loss of all tokens, from "
        "before the update.",
    )
    if abs(own - norm) <= 1e-4 * norm:
        return
    why = next((why for value, why in wrong_norms(parts, rank) if abs(own - value) <= 1e-4 * value), "")
    if not why and abs(own - max_norm) <= 1e-4 * max_norm:
        why = "It is the norm of the clipped gradients."
    why = why or "Which gradients does it include, and on which rank is each of them?"
    need(False, f"{told}, the norm is {own:.5f}. On one device it is {norm:.5f}. {why}")


def need_weights(rank, step, after, model, ranks, small):
    for name, parameter in model.named_parameters():
        whole = parameter.detach()
        right = (whole.chunk(ranks, SHARDED[name])[rank] if name in SHARDED else whole).numpy()
        if np.allclose(after[name], right, rtol=1e-4, atol=1e-5):
            continue
        kind = (
            "Each rank has its own shard of it, whose gradient is whole."
            if name in SHARDED
            else "Each rank computes its own tokens with it."
            if name in SEQUENCE
            else "Each rank computes all tokens with it."
        )
        need(
            False,
            f"the loss and the norm are right in step {step + 1}, but {name} differs on rank {rank} from that of one "
            f"device after the step. {kind} "
            + (
                "The norm is below max_norm, so no gradient is scaled: the factor is at most 1."
                if small
                else "Is its gradient right, and clipped once by the norm of all gradients?"
            ),
        )


@ex3.fact("on two ranks, losses, norms and weights match those of one device")
def _(student):
    compare_steps(student, 2, (6, 8, 5), tokens=8)


@ex3.fact("losses, norms and weights also match on three ranks, and where the norm is below max_norm")
def _(student):
    compare_steps(student, 3, (5, 9, 4), tokens=12, seed=2)
    compare_steps(student, 2, (6, 8, 5), tokens=8, max_norm=50.0, rate=0.1, seed=3)


# --- ex4: a run that cannot go on -----------------------------------------------------------------------------------

ex4 = lab.exercise(
    "ex4",
    points=2,
    title="A run that can be killed",
    hints=[
        "How much memory does a loss hold, and until when? loss.item() is a number.",
        "If a process is killed while it writes a file, half a file is left. Write to another name first. os.replace "
        "then puts the whole file in place at once.",
        "torch.load does not notice if some numbers of a file have become zeros. A checksum of the bytes does: "
        "hashlib.sha256, or zipfile.ZipFile(...).testzip(), because torch.save writes a zip file with checksums.",
        "Serialize into io.BytesIO first, if you need the bytes for a checksum. Try the newest file first.",
    ],
    likely={
        "PytorchStreamReader": "A damaged checkpoint was loaded. Check a file first, and go back to the one before.",
        "Directory not empty": "Does a thread of train still write after train has returned? Wait for it.",
        "EOFError": "A file that was not completely written was loaded. Write to a new file, and then rename it.",
    },
)


def run_lives(lab, count, every, steps, plan, seed):
    """Trains in several lives. Each is [when it is killed, or None; how the newest file is damaged after it, or ""].

    A kill is as hard as SIGKILL: the folder is left as it was at that moment.
    """
    import io
    import os
    import shutil
    import tempfile
    import weakref
    from contextlib import contextmanager
    from pathlib import Path

    import torch
    from torch import nn

    from utils.exercises.facts.probes import array, fill, kind_of
    from utils.kits.lives import forgetting

    class Killed(BaseException):
        pass

    class Kept:
        def __init__(self, tensor):
            self.tensor = tensor

    class Counted(torch.Tensor):
        """A tensor of a state_dict, saved and loaded as any other. It tells when it is pickled."""

        def __reduce_ex__(self, protocol):
            passes("save")
            return torch.Tensor.__reduce_ex__(torch.Tensor.as_subclass(self, torch.Tensor), protocol)

        def __deepcopy__(self, _):
            return torch.Tensor.as_subclass(torch.ones(3), Counted)

    def pack(tensor):
        kept = Kept(tensor.detach())  # a result of its own node would keep itself
        graphs.append(weakref.ref(kept))
        return kept

    def unpack(kept):
        return kept.tensor

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            if count < 8:  # so small that a file with its state fits in Python's buffer
                self.layers = nn.Linear(count, 2, bias=False)
            else:
                self.layers = nn.Sequential(nn.Linear(count, 16), nn.Tanh(), nn.Linear(16, 2))

        def forward(self, x, y):
            look_at_files()
            if len(x) == rows:  # a batch, and not what is held out
                alive.append(sum([one() is not None for one in graphs]))
                passes("forward")
            with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
                loss = nn.functional.mse_loss(self.layers(x), y)
            if len(x) != rows:
                tested.append([updates[0], float(array(loss))])
            return loss

        def get_extra_state(self):
            return torch.Tensor.as_subclass(torch.ones(3), Counted)

        def set_extra_state(self, state):
            pass

    graphs, alive, passed, until, rows, tested, updates = [], [], {}, [None], 6, [], [0]
    disk, files, newest, sizes = [], {}, [], []
    synced, early, calls, safe = {}, {}, [], []  # the size by a file's number; which were renamed before
    late, unknown = {"unsynced": 0, "renamed": 0, "deleted": 0, "elsewhere": 0}, [False]
    descriptors = {
        io.BufferedWriter: io.BufferedWriter.fileno,
        io.BufferedReader: io.BufferedReader.fileno,
        io.BufferedRandom: io.BufferedRandom.fileno,
        io.FileIO: io.FileIO.fileno,
        io.TextIOWrapper: io.TextIOWrapper.fileno,
    }

    def content():
        return {
            os.path.join(place, name): Path.read_bytes(Path(place, name))
            for place, _, names in os.walk(folder)
            for name in names
        }

    def look_at_files():
        now = content()
        before = [files[name] for name in files]
        changed = [name for name in now if now[name] not in before]  # not one that was only renamed
        if changed:
            newest[:] = changed
            number, size = about(max(changed, key=lambda name: len(now[name])))
            late["renamed" if number in early else "unsynced"] += number in early or synced.get(number) != size
        safe[:] = [False]
        files.clear()
        for name in now:
            files[name] = now[name]
        sizes.append([len(each) for each in [now[name] for name in now]])

    def passes(what):
        passed[what] = passed.get(what, 0) + 1
        if until[0] == [what, passed[what]]:
            for place, _, names in os.walk(folder):
                disk.append((place, None))
                for name in names:
                    disk.append((os.path.join(place, name), Path.read_bytes(Path(place, name))))
            raise Killed

    def about(file):
        found = os.stat(file)
        return found[1], found[6]  # which file it is, whatever its name, and its size

    def large(size):
        return 2 * size > max([len(each) for _, each in files.items()], default=0)

    def outside(path):
        return not os.path.realpath(path).startswith(os.path.realpath(folder))

    def moving(work):
        def stops_before(source, target, **more):
            passes("file")
            number, size = about(source)
            if synced.get(number) != size:
                early[number] = True
            late["elsewhere"] += outside(source) and not outside(target)
            if os.path.exists(target):
                forget(target)
            return work(source, target, **more)

        return stops_before

    def deleting(work):
        def stops_before(path, **more):
            passes("file")
            if os.path.exists(path):
                late["deleted"] += large(about(path)[1]) and not safe[0]
                forget(path)
            return work(path, **more)

        return stops_before

    def forget(path):
        number = about(path)[0]
        synced.pop(number, None), early.pop(number, None)

    def syncing(file):
        calls.append(1)
        descriptor = next((its(file) for kind, its in descriptors.items() if isinstance(file, kind)), file)
        if not isinstance(descriptor, int):  # a wrapper of tempfile, say: which file it has is not known
            unknown[0] = True
            return sync(file)
        number, size = about(descriptor)
        synced[number] = size
        safe[0] = safe[0] or large(size)
        return sync(file)

    sync, kept = os.fsync, {name: getattr(os, name) for name in ("remove", "rename", "replace", "unlink")}

    @contextmanager
    def noting_what_files_undergo():
        try:
            for name, work in kept.items():
                setattr(os, name, (moving if name in ("rename", "replace") else deleting)(work))
            os.fsync = syncing
            yield
        finally:
            for name, work in kept.items():
                setattr(os, name, work)
            os.fsync = sync

    def damage(how, numbers, others):
        names = [name for name in newest if os.path.exists(name)]
        if not names:
            return
        biggest = max(names, key=lambda name: len(files[name]))
        whole = files[biggest]
        half = len(whole) // 2
        if how == "cut short":
            Path.write_bytes(Path(biggest), whole[:half])
            return
        places = [begin for begin in range(len(whole)) if whole[begin : begin + len(numbers)] == numbers]
        begin, length = (places[0], len(numbers)) if places else (half, len(whole) // 8)
        others = others if how == "old numbers" and places else bytes(length)
        Path.write_bytes(Path(biggest), whole[:begin] + others + whole[begin + length :])

    def live(stop, broken, number):
        """One process: it knows nothing but the folder."""
        put_back()
        graphs.clear(), alive.clear(), tested.clear(), passed.clear(), disk.clear(), sizes.clear()
        synced.clear(), early.clear(), calls.clear()
        until[0], safe[:], updates[0] = stop, [True], 0
        for kind in late:
            late[kind] = 0
        torch.manual_seed(seed + 100 * number)
        model = Model()
        fill(model, seed)  # a script begins with the same weights each time
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
        found, killed = None, False
        saved = []

        def stepped(*_):
            updates[0] += 1
            first = next(iter(model.parameters()))
            state = torch.optim.AdamW.state_dict(optimizer)["state"]
            numbers = state[0]["exp_avg"] if broken == "zeros for the optimizer" else first
            saved.append(bytes(array(numbers).copy()))

        optimizer.register_step_post_hook(stepped)
        try:
            with noting_what_files_undergo():
                found = lab.train(model, optimizer, list(batches), held_out, folder, every)
            look_at_files()
        except Killed:
            killed = True
            shutil.rmtree(folder)
            for name, bytes_of in disk:
                if bytes_of is None:
                    os.mkdir(name)
                else:
                    Path.write_bytes(Path(name), bytes_of)
        if killed and broken == "zeros at once":
            look_at_files()  # what was written last is damaged, though the run was killed before it went on
        if broken:
            in_file = [one for one in saved if any([one in files[name] for name in newest if name in files])]
            damage(broken, in_file[-1] if in_file else b"no such bytes", saved[0])
        if isinstance(found, list) and all([isinstance(each, float) for each in found]):
            found = [float(each) for each in found]
        else:
            others = [one for one in found if not isinstance(one, float)] if isinstance(found, list) else []
            found = f"a list with {kind_of(others[0])} in it" if others else kind_of(found)
        return {
            "returned": found,
            "killed": killed,
            "alive": list(alive),
            "tested": [list(one) for one in tested],
            "sizes": [list(each) for each in sizes],
            "synced": len(calls),
            "late": {kind: 0 if unknown[0] and kind != "elsewhere" else count for kind, count in late.items()},
            "parameters": [] if killed else [array(p).copy() for p in model.parameters()],
        }

    put_back = forgetting(lab.train)
    numbers = torch.Generator().manual_seed(seed)
    batches = [
        (torch.randn(rows, count, generator=numbers), torch.randn(rows, 2, generator=numbers)) for _ in range(steps)
    ]
    held_out = torch.randn(4, count, generator=numbers), torch.randn(4, 2, generator=numbers)
    lives = []
    for one in ([[None, ""]], plan):
        folder = tempfile.mkdtemp()
        files.clear(), newest.clear()
        try:
            lives.append([live(stop, broken, number) for number, (stop, broken) in enumerate(one)])
        finally:
            shutil.rmtree(folder)
    return {"alone": lives[0][0], "lives": lives[1]}


MOMENTS = {
    "forward": "in the forward pass of its step",
    "save": "in the middle of save",
    "file": "before file removal or rename",
}


def compare_lives(student, plan, *, steps=11, every=3, begins=None, count=8, seed=1, words=""):
    """`plan` has each life's stop and damage; `begins` the steps after which the last one may begin.

    Without `begins`, it may begin after the last save before a kill, or after the one that the kill cut off; after
    several kills anywhere.
    """
    with case(f"After {words}"):
        asked = [[list(stop) if stop else None, how] for stop, how in plan]
        run = student.run(run_lives, count, every, steps, asked, seed)
    alone = run["alone"]
    need_alone(alone, steps, every)
    for number, ((stop, how), life) in enumerate(zip(plan, run["lives"], strict=True)):
        if stop and stop[0] in ("save", "file") and not life["killed"] and not how:
            return  # it saves without coming by there, so that there is nothing to stop
        told = f"{MOMENTS[stop[0]]} {stop[1]}" if stop else "not"
        need(
            not stop or life["killed"] or stop[0] != "forward", f"life {number + 1} ended before it was killed {told}."
        )
    last, ran = run["lives"][-1], len(run["lives"][0]["alive"])
    if begins is None and len(plan) > 2:
        begins = range(steps)
    begins = begins or [ran // every * every - (every if ran % every == 0 else 0), ran // every * every]
    if any(how for _, how in plan) and ran < {"save": 2, "file": 3}.get(plan[0][0][0], 0) * every:
        begins = [0, *begins]  # killed in an earlier save, because each writes several files: only one was whole
    with case(f"After {words}"):
        found, wanted = last["returned"], alone["returned"]
        need(isinstance(found, list), f"train returned {found}. Return a list of floats.")
        need(
            len(found) == steps,
            f"train returned {len(found)} losses of {steps} steps. "
            + ("Those of some steps are missing." if len(found) < steps else "Those of some steps appear twice."),
        )
        began = steps - len(last["alive"])
        if found != wanted:
            step = next(n for n, pair in enumerate(zip(found, wanted, strict=True)) if pair[0] != pair[1])
            why = (
                f"It continued with step {began + 1}, that is, from the damaged checkpoint. torch.load does not check "
                "the numbers in a file."
                if any(how for _, how in plan) and (began > max(begins) or plan[0][1] == "zeros at once")
                else "Restore the weights, the optimizer's state and the step, all from the same moment."
            )
            need(False, f"from step {step + 1} on, the losses differ from those of a run without a kill. {why}")
        need(
            began in begins,
            f"the run continued with step {began + 1}. With a save after every {every} steps, the last whole "
            f"checkpoint is of step {max(begins)}. {lost_between(plan, began, begins)}".rstrip(),
        )
        same = all(np.array_equal(a, b) for a, b in zip(last["parameters"], alone["parameters"], strict=True))
        need(same, "the losses are right, but the final weights differ from those of a run without a kill.")
        largest = max(alone["sizes"][-1])
        need(
            sum(last["sizes"][-1]) <= 3.5 * largest,
            f"in the end the folder has {sum(last['sizes'][-1]) / largest:.0f} checkpoints. Delete all but the last "
            "two, including those that a killed process has left behind.",
        )


def lost_between(plan: list, began: int, begins) -> str:
    if "file" in [stop[0] for stop, _ in plan if stop] and any(how for _, how in plan) and began < min(begins):
        return "A whole checkpoint was deleted or replaced before the next one had its name. The other one was damaged."
    return ""


def need_alone(alone: dict, steps: int, every: int) -> None:
    with case(f"In {steps} steps without a kill, saved every {every}"):
        found = alone["returned"]
        need(isinstance(found, list), f"train returned {found}. Return a list of floats.")
        need(len(found) == steps, f"train returned {len(found)} numbers. Return the loss of each of {steps} steps.")
        need(
            len(alone["alive"]) == steps, f"the model ran {len(alone['alive'])} times on the batches of {steps} steps."
        )
        for step, loss in enumerate(found, 1):
            own = [value for updates, value in alone["tested"] if updates == step]
            need(
                any(loss == value for value in own),
                f"the loss of step {step} is not that of `held_out` with the weights after {counted(step, 'update')}.",
            )
        kept = alone["alive"]
        need(
            kept[-1] <= max(kept[:3]),
            f"before step 2, {kept[1]} tensors were kept for a backward pass, and before the last step {kept[-1]}. "
            "Which tensor that you keep still holds its graph, although no backward pass will follow?",
        )
        largest = max((max(each) for each in alone["sizes"] if each), default=0)
        need(largest, "no file was in the folder. Save after every `every` steps.")
        most = max(sum(each) for each in alone["sizes"])
        need(most <= 2.5 * largest, f"the folder grew to {most / largest:.0f} checkpoints. Keep the last two.")
        saves, late = steps // every, alone["late"]
        need(
            not late["elsewhere"],
            "a file was written in another folder and then renamed. Write it in `folder`: os.replace cannot rename to "
            "another disk.",
        )
        need(
            alone["synced"] >= saves,
            f"os.fsync was called {counted(alone['synced'], 'time')} for {saves} checkpoints. Without it, a rename "
            "can reach the disk before the bytes of the file, and the machine can lose power in between.",
        )
        need(
            not late["renamed"],
            "a checkpoint was renamed before os.fsync was called on the whole file: the new name can reach the disk "
            "before the bytes do. Before os.fsync, call file.flush(), because Python has a buffer.",
        )
        need(
            not late["unsynced"],
            "os.fsync was called, but not on a whole checkpoint: some bytes came later, or were still in Python's "
            "buffer (file.flush()), or the file was another one.",
        )
        need(
            not late["deleted"],
            "an older checkpoint was deleted before os.fsync was called on the whole new one. A run that "
            "ends in between leaves one checkpoint, and it can be the damaged one.",
        )


@ex4.fact(
    "without a kill, train keeps no graphs, returns all losses, keeps two checkpoints and flushes each to the disk"
)
def _(student):
    need_alone(student.run(run_lives, 8, 3, 11, [[None, ""]], 1)["alone"], 11, 3)


@ex4.fact("after a kill in a forward pass, the losses and weights match those of a run without a kill")
def _(student):
    compare_lives(student, [(("forward", 14), ""), (None, "")], steps=15, begins=[12], words="a kill in step 14")


@ex4.fact("after a kill in the middle of a save or before a rename, train continues from a whole checkpoint")
def _(student):
    for when in ("save", "file"):
        compare_lives(student, [((when, 2), ""), (None, "")], words=f"a kill {MOMENTS[when]}")


@ex4.fact("train does not trust a newest checkpoint that is cut short or has zeros for numbers")
def _(student):
    for how in ("cut short", "zeros"):
        compare_lives(
            student, [(("forward", 9), how), (None, "")], begins=[3], words=f"a kill in step 9 and damage ({how})"
        )
    compare_lives(
        student,
        [(("forward", 9), "cut short"), (("file", 2), ""), (None, "")],
        begins=[3, 6, 9],
        words="a kill in step 9, damage (cut short) and a kill before a file is renamed or deleted",
    )
    compare_lives(
        student,
        [(("file", 4), "cut short"), (None, "")],
        begins=[3, 6, 9],
        words="a kill before a file is renamed or deleted, and damage (cut short)",
    )
