"""The facts about lesson 18's tasks: who came last, whose gradients differ, where ranks first call something else."""

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson18", "Slow, wrong or dead")

# --- straggler ------------------------------------------------------------------------------------------------------

last = lab.exercise(
    "straggler",
    points=0,
    title="Who came last",
    hints=[
        "A collective begins when its last rank is there: max(ranks). The others wait from their start until then.",
        "ranks.index(last) is the rank that came last. Add the others' waiting to that rank's sum.",
        "Return the rank with the largest sum, and the sum: max(waited, key=waited.get).",
    ],
)
# Rank 1 comes last three times by little, rank 2 once by much.
OFTEN = [[0.0, 0.1, 0.0], [1.0, 1.2, 1.1], [2.0, 2.1, 2.0], [3.0, 3.0, 4.5]]
FOUR = [[0.0, 0.0, 0.0, 3.0], [5.0, 4.0, 4.5, 5.5], [6.0, 9.0, 6.0, 6.5], [10.0, 10.0, 10.0, 11.0]]
FIRST = [[2.0, 1.0], [5.0, 3.0], [6.0, 6.5]]
EARLY = [[0.0, 9.0, 10.5], [30.0, 29.0, 20.0]]  # rank 1 has the largest sum of starts, and never comes last


def run_straggler(lab, starts):
    from utils.exercises.facts.probes import kind_of

    found = lab.straggler(starts)
    if not isinstance(found, tuple | list) or len(found) != 2:
        return f"it returned {kind_of(found)}"
    rank, seconds = found
    if not isinstance(rank, int) or isinstance(rank, bool) or not isinstance(seconds, int | float):
        return f"it returned {kind_of(rank)} and {kind_of(seconds)}"
    return [rank, float(seconds)]


def waited(starts):
    sums = [0.0] * len(starts[0])
    for ranks in starts:
        sums[ranks.index(max(ranks))] += sum(max(ranks) - start for start in ranks)
    return sums


def compare_straggler(student, starts):
    sums, found = waited(starts), student.run(run_straggler, starts)
    right = sums.index(max(sums))
    with case(f"With starts={starts}"):
        need(not isinstance(found, str), f"{found}. Return a rank and seconds.")
        rank, seconds = found
        own = [sum(max(ranks) - ranks[r] for ranks in starts) for r in range(len(sums))]
        whole = [sum(ranks[r] for ranks in starts) for r in range(len(sums))]
        counts = [sum(ranks.index(max(ranks)) == r for ranks in starts) for r in range(len(sums))]
        why = ""
        if rank == own.index(max(own)):
            why = f" Rank {rank} waited longest: it is not the cause."
        elif rank == counts.index(max(counts)):
            why = f" Rank {rank} came last most often, but by little."
        elif rank == whole.index(max(whole)):
            why = f" Rank {rank} has the largest sum of starts. Compare the ranks in each collective, and add up then."
        need(rank == right, f"the others waited longest for rank {right}, but you returned {rank}.{why}")
        need(
            abs(seconds - sums[right]) < 1e-6,
            f"for rank {right}, the others waited {sums[right]:g} s, but you returned {seconds:g}. Add up each other "
            "rank's waiting, in those collectives in which this rank came last.",
        )


@last.fact("it is the rank that the others waited for longest, and for how long they did")
def _(student):
    compare_straggler(student, FOUR)
    compare_straggler(student, EARLY)


@last.fact("the same holds if another rank comes last more often, or comes first")
def _(student):
    compare_straggler(student, OFTEN)
    compare_straggler(student, FIRST)


# --- unequal --------------------------------------------------------------------------------------------------------

same = lab.exercise(
    "unequal",
    points=0,
    title="Gradients that differ between ranks",
    hints=[
        "gradients[0] has all names. Skip those in sharded.",
        "torch.equal(a, b) compares all numbers. An all-reduce gives each rank the same bits.",
        "Compare with every other rank: any(not torch.equal(...) for other in gradients[1:]).",
    ],
)


def run_unequal(lab, ranks, differ, sharded, how):
    import torch

    from utils.exercises.facts.probes import kind_of

    names = ["embed.weight", "norm1.weight", "q.weight", "norm2.weight", "head.weight"]
    gradients = []
    for rank in range(ranks):
        mine = {}
        for place, name in enumerate(names):
            mine[name] = torch.arange(4.0) - 1.5 + place
            if [rank, name] in differ and how == "in their order":
                mine[name] = mine[name][[3, 2, 1, 0]]
            elif [rank, name] in differ and how == "in a last bit":
                mine[name][3] += 2.0**-21  # of 4.5
            elif [rank, name] in differ:
                mine[name][place % 4] += 1e-3
            elif name in sharded:
                mine[name] += rank
        gradients.append(mine)
    found = lab.unequal(gradients, set(sharded))
    if not isinstance(found, list | tuple | set):
        return f"it returned {kind_of(found)}"
    return sorted(str(name) for name in found)


def compare_unequal(student, ranks, differ, sharded=("q.weight",), how="in a number"):
    found = student.run(run_unequal, ranks, [list(one) for one in differ], list(sharded), how)
    right = sorted({name for _, name in differ})
    told = "; ".join(f"{name} differs on rank {rank}, {how}" for rank, name in differ) or "equal replicas"
    with case(f"On {ranks} ranks ({told})"):
        need(not isinstance(found, str), f"{found}. Return a list of names.")
        wrong = [name for name in found if name in sharded]
        need(not wrong, f"{wrong} is among the names: its ranks have different shards of it, which should differ.")
        need(found == right, f"the names are {right}, but you returned {found}.")


@same.fact("it names the replicated weights whose gradients differ between two ranks")
def _(student):
    compare_unequal(student, 2, [(1, "norm1.weight"), (1, "norm2.weight")])
    compare_unequal(student, 2, [(1, "norm1.weight")], how="in their order")
    compare_unequal(student, 2, [(0, "norm2.weight")], how="in a last bit")


@same.fact("the same holds on four ranks, whichever rank differs, and if none does")
def _(student):
    compare_unequal(student, 4, [(2, "head.weight"), (3, "norm1.weight")])
    compare_unequal(student, 3, [(0, "norm2.weight")], ("q.weight", "embed.weight"))
    compare_unequal(student, 4, [(2, "norm1.weight"), (3, "norm1.weight")])
    compare_unequal(student, 2, [])


# --- first_mismatch -------------------------------------------------------------------------------------------------

recorder = lab.exercise(
    "first_mismatch",
    points=0,
    title="Where ranks first call something else",
    hints=[
        'For each rank, make a dict: calls[e["collective_seq_id"]] = e["profiling_name"], e["input_sizes"].',
        "Go through the numbers in order, from max(min(mine) for mine in calls) on: all ranks still have this one. "
        "calls.get(number) is None where a rank has no such call.",
        "The usual call: max(called, key=called.count). The odd ranks are those whose call is another.",
    ],
)
SUM, BIG, SMALL, GATHER = "nccl:all_reduce", [[64, 64]], [[1]], "nccl:_all_gather_base"
STEP = [(SUM, BIG), (SUM, BIG), (GATHER, BIG), (SUM, SMALL)]
SKIPS = [STEP + STEP, STEP + STEP, STEP[:3] + STEP[:2], STEP + STEP]  # rank 2 leaves out number 4
OTHER_KIND = [[*STEP, (GATHER, BIG)], [*STEP, (SUM, BIG)], [*STEP, (SUM, BIG)]]
ENDS = [STEP + STEP, STEP + STEP[:1], STEP + STEP]
HEALTHY = [STEP, STEP]
AHEAD = [STEP + STEP[:3], [*STEP, *STEP[:2], (GATHER, SMALL), STEP[3], *STEP[:1]], STEP + STEP[:3]]  # rank 1


def run_mismatch(lab, calls, begin, lost):
    from utils.exercises.facts.probes import kind_of

    dumps = []
    for mine, first in zip(calls, lost, strict=True):
        entries = []
        for number, (name, sizes) in enumerate(mine):
            state = "completed" if number < len(mine) - 1 else "scheduled"
            entries.append(
                {
                    "record_id": number,
                    "collective_seq_id": begin + number,
                    "profiling_name": name,
                    "input_sizes": [list(size) for size in sizes],
                    "state": state,
                    "process_group": ("0", "default_pg"),
                }
            )
        dumps.append({"version": "2.10", "entries": entries[first:]})
    found = lab.first_mismatch(dumps)
    if found is None:
        return None
    if not isinstance(found, tuple | list) or len(found) != 2 or not isinstance(found[1], tuple | list | set):
        return f"it returned {kind_of(found)}"
    number, odd = found
    if not isinstance(number, int):
        return f"it returned {kind_of(number)} as a number"
    return [number, sorted(int(rank) for rank in odd)]


def mismatch(calls, begin, lost):
    for place in range(max(lost), max(map(len, calls))):
        called = [mine[place] if place < len(mine) else None for mine in calls]
        usual = max(called, key=called.count)
        odd = [rank for rank, call in enumerate(called) if call != usual]
        if odd:
            return [begin + place, odd]
    return None


def compare_mismatch(student, calls, told, begin=1, lost=()):
    """`lost` is how many of its oldest calls the recorder of each rank has no longer."""
    lost = list(lost) or [0] * len(calls)
    right, found = mismatch(calls, begin, lost), student.run(run_mismatch, calls, begin, lost)
    with case(f"With dumps of {len(calls)} ranks, {told}"):
        need(not isinstance(found, str), f"{found}. Return a number and a list of ranks, or None.")
        if right is None or found is None:
            need(found is None, f"all ranks made the same calls, but you returned {found}.")
            need(right is None, f"the first mismatch is at number {(right or [0])[0]}, but it returned None.")
            return
        number, odd = found
        shortest = begin + min(map(len, calls)) - 1
        why = ""
        if number < begin + max(lost):
            why = f" Rank {lost.index(max(lost))} has made that call, and its recorder has lost it."
        elif number == right[0] - begin:
            why = " collective_seq_id is a call's number, not its place in the list."
        elif number >= shortest:
            why = " That is where the ranks stopped, not where they first differed."
        need(number == right[0], f"the first mismatch is at number {right[0]}, but you returned {number}.{why}")
        need(odd == right[1], f"at number {number}, ranks {right[1]} differ from most, but you returned {odd}.")


@recorder.fact("it is the first number at which a rank's call differs from that of most ranks")
def _(student):
    compare_mismatch(student, SKIPS, "of which rank 2 leaves out number 4")


@recorder.fact("the same holds if the kind of call differs, if a rank makes no more calls, and if none differs")
def _(student):
    compare_mismatch(student, OTHER_KIND, "of which rank 0 makes another kind of call")
    compare_mismatch(student, ENDS, "of which rank 1 stops early")
    compare_mismatch(student, HEALTHY, "with equal calls")


@recorder.fact("the same holds if the recorders have lost their oldest calls")
def _(student):
    compare_mismatch(student, SKIPS, "of which the first call is number 2001", 2001)
    told = "of which rank 1 has run ahead, and so has lost two more old calls"
    compare_mismatch(student, AHEAD, told, 2001, lost=(1, 3, 1))
