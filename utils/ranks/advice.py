"""What to do about errors that do not say so themselves, most of them PyTorch's own."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """In which function something is raised, part of what it says, and what helps."""

    raised_in: str
    says: str
    do: str


ADVICE = (
    Advice(
        "", "can never complete", "All ranks of a group have to make the same calls, and each send needs its receive."
    ),
    Advice("init_process_group", "twice", "On these ranks the process group is there already: leave this line out."),
    Advice("destroy_process_group", "cannot be None", "There is no process group any more: it was destroyed before."),
    Advice("", "has not been initialized", "The process group was destroyed before: destroy it at the very end."),
    Advice(
        "", "backend type associated with device type cpu", "This group works on GPUs: move the tensor to one first."
    ),
    Advice(
        "batch_isend_irecv", "index out of range", "Its list is empty: do not call it where there is nothing to do."
    ),
    Advice("all_gather_object", "index out of range", "Its list needs a place for each rank: [None] * world_size."),
    Advice("all_gather_object", "pickle", "Objects travel as pickles: send what can be pickled, such as a state_dict."),
    Advice(
        "", "is not part of group", "Src, dst and root are numbers in the whole world, and have to be in the group."
    ),
)


def advice_on(message: str, functions: list[str]) -> str:
    """What to do about an error that came through these functions; nothing where that is not known."""
    fits = (one.do for one in ADVICE if one.says in message and (not one.raised_in or one.raised_in in functions))
    return next(fits, "")
