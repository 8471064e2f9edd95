"""The facts about lesson 17's tasks: rows go to their experts, come back in order, and gradients return."""

import numpy as np

from utils.exercises.facts import Lab, case, need

lab = Lab("lesson17", "Experts, and the network under them")

TWO = [[1, 0, 1, 1, 0], [1, 0, 0]]  # chosen by each rank's rows
THREE = [[2, 2, 0, 2], [0, 1], [2, 0, 0, 1, 2, 2, 2]]
IDLE = [[2, 0, 2], [0, 0, 2, 2], [2]]  # no row for expert 1


def rows_of(rank, count):
    """As measured.rows_of, without PyTorch."""
    numbers = np.arange(count, dtype=np.float32)
    return np.stack([np.full(count, float(rank)), numbers, (10 * rank + numbers) ** 2], 1).astype(np.float32)


def same(found, right):
    return found.shape == right.shape and np.allclose(found, right, rtol=1e-5, atol=1e-5)


def sorted_rows(rows):
    return np.array(sorted(map(tuple, rows.tolist()))).reshape(rows.shape)


# --- dispatch -------------------------------------------------------------------------------------------------------

going = lab.exercise(
    "dispatch",
    points=0,
    title="Send rows to their experts",
    hints=[
        "order = chosen.argsort(stable=True); x[order] has the rows for expert 0 first.",
        "torch.bincount(chosen, minlength=experts) counts the rows for each expert, also where there are none.",
        "Each rank sends one count to each rank: exchange(counts, [1] * experts, [1] * experts) is what it receives.",
        "tolist() makes a list of a tensor. The last step is exchange(x[order], send, receive).",
    ],
)


def run_dispatch(lab, chosen):
    from utils.exercises.tasks.lesson17.measured import dispatched
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(len(chosen), dispatched, lab.dispatch, chosen)


def compare_dispatch(student, chosen):
    told = student.run(run_dispatch, chosen)
    ranks = range(len(chosen))
    with case("With the choices " + "; ".join(f"{mine} on rank {r}" for r, mine in enumerate(chosen))):
        for rank, one in enumerate(told):
            need("wrong" not in one, f"on rank {rank}, {one.get('wrong')}")
        for rank, one in enumerate(told):
            mine = chosen[rank]
            send = [mine.count(expert) for expert in ranks]
            receive = [chosen[other].count(rank) for other in ranks]
            need(
                one["send"] == send,
                f"rank {rank}'s send is {one['send']}, but its rows for each expert are {send}."
                + (" Experts without rows count, too: minlength." if len(one["send"]) < len(send) else ""),
            )
            need(
                one["receive"] == receive,
                f"rank {rank}'s receive is {one['receive']}, but it receives {receive}. The other ranks know these "
                "numbers: exchange counts first.",
            )
            order = [row for expert in ranks for row in range(len(mine)) if mine[row] == expert]
            need(
                one["order"] == order,
                f"rank {rank}'s order is {one['order']}, not {order}: the rows for expert 0 first, and rows for one "
                "expert in the order of x.",
            )
        for rank, one in enumerate(told):
            came = [rows_of(r, len(chosen[r]))[np.array(chosen[r], dtype=int) == rank] for r in ranks]
            right = np.concatenate(came)
            found = one["received"]
            need(found.shape == right.shape, f"rank {rank} received shape {found.shape}, not {right.shape}.")
            need(
                same(found, right) or not same(sorted_rows(found), sorted_rows(right)),
                f"rank {rank} has the right rows in another order. Sort once, and exchange x[order].",
            )
            need(
                same(found, right),
                f"rank {rank} received rows for other experts. Is x sorted by expert before it is sent?",
            )
        return told


@going.fact("each of two experts receives the rows that chose it, in order")
def _(student):
    compare_dispatch(student, TWO)


@going.fact("the same holds for three experts, also if no row chooses one")
def _(student):
    compare_dispatch(student, THREE)
    compare_dispatch(student, IDLE)


@going.fact("each row travels once")
def _(student):
    for rank, one in enumerate(compare_dispatch(student, THREE)):
        rows = len(THREE[rank]) * 3 * 4
        need(
            one["bytes"] <= rows + 8 * 8 * len(THREE),
            f"rank {rank} gives exchange {one['bytes']} bytes, but its rows have {rows}. Send each row to its expert "
            "only.",
        )


# --- combine --------------------------------------------------------------------------------------------------------

coming = lab.exercise(
    "combine",
    points=0,
    title="Bring rows back in their order",
    hints=[
        "A rank returns what it received, and receives what it sent: swap send and receive.",
        "What comes back is sorted by expert: its row i belongs to row order[i] of x.",
        "order.argsort() undoes order.",
    ],
)


def run_combine(lab, chosen):
    from utils.exercises.tasks.lesson17.measured import combined
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(len(chosen), combined, lab.combine, chosen)


def compare_combine(student, chosen):
    told = student.run(run_combine, chosen)
    with case("With the choices " + "; ".join(f"{mine} on rank {r}" for r, mine in enumerate(chosen))):
        for rank, one in enumerate(told):
            need("wrong" not in one, f"on rank {rank}, {one.get('wrong')}")
            mine = np.array(chosen[rank], dtype=int)
            x = rows_of(rank, len(mine))
            right, found = x * (2.0 + mine[:, None]), one["rows"]
            need(found.shape == right.shape, f"rank {rank} returned shape {found.shape}, not {right.shape}.")
            order = np.argsort(mine, kind="stable")
            need(
                not same(found, right[order]) or same(found, right),
                f"rank {rank}'s rows are still sorted by expert. order says which row of x each is.",
            )
            need(
                not same(found, right[order][order]) or same(found, right),
                f"rank {rank}'s rows are sorted by order once more. The inverse of order brings them back.",
            )
            need(same(found, right), f"rank {rank}'s rows are not its experts' outputs in the order of x.")


@coming.fact("each of two ranks has its experts' outputs in the order of its rows")
def _(student):
    compare_combine(student, TWO)


@coming.fact("the same holds on three ranks, also if an expert has no rows")
def _(student):
    compare_combine(student, THREE)
    compare_combine(student, IDLE)


# --- gradients ------------------------------------------------------------------------------------------------------

gradients = lab.exercise(
    "AllToAll",
    points=0,
    title="Gradients return to their rows",
    hints=[
        "Row i of the output came from another rank's row. That rank needs row i of the gradient.",
        "So backward is an all-to-all, too, with send and receive swapped: gradient.new_empty has sum(ctx.send) rows.",
        "dist.all_to_all_single takes the output, the input, the rows from each rank, the rows to each rank. The "
        "input has to be contiguous.",
        "forward has four inputs, so backward returns four values: the gradient of rows, and three times None.",
    ],
)
SPLITS = {"two ranks": [[2, 1], [3, 0]], "three ranks": [[1, 0, 2], [2, 1, 1], [0, 3, 1]]}


def run_exchange(lab, splits, ranks):
    from utils.exercises.tasks.lesson17.measured import exchanged
    from utils.exercises.tasks.on_ranks import on_ranks

    return on_ranks(ranks, exchanged, lab.AllToAll, splits)


def compare_exchange(student, splits, ranks):
    some = ranks - len(splits)  # ranks that are not in the group
    told = student.run(run_exchange, splits, ranks)[some:]
    where = f"In a group of the last {len(splits)} of {ranks} ranks" if some else f"On {ranks} ranks"
    with case(f"{where}, which send {', '.join(map(str, splits))} rows to its ranks"):
        for rank, one in enumerate(told):
            need("wrong" not in one, f"on rank {rank}, {one.get('wrong')}")
            came = []
            for other, mine in enumerate(splits):
                start = sum(mine[:rank])
                came.append(rows_of(some + other, sum(mine))[start : start + mine[rank]])
            need(
                same(one["received"], np.concatenate(came)),
                f"rank {rank} receives other rows in the forward pass, which was right before.",
            )
            need(one["gradient"] is not None, f"rank {rank}'s rows have no gradient.")
            right = []
            for other in range(len(splits)):
                start = sum(splits[before][other] for before in range(rank))
                right += [100.0 * other + start + i for i in range(splits[rank][other])]
            right = np.repeat(np.array(right, np.float32)[:, None], 3, 1)
            found = one["gradient"]
            need(
                same(found, right),
                f"rank {rank}'s rows have the gradients {found[:, 0].tolist()}, but on the ranks that received them "
                f"they are {right[:, 0].tolist()}.",
            )


@gradients.fact("on two ranks, each row's gradient comes back to it")
def _(student):
    compare_exchange(student, SPLITS["two ranks"], 2)


@gradients.fact("the same holds on three ranks")
def _(student):
    compare_exchange(student, SPLITS["three ranks"], 3)


@gradients.fact("in a group of some ranks, the gradients stay in the group")
def _(student):
    compare_exchange(student, SPLITS["two ranks"], 3)
