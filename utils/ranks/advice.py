"""What to do about errors that do not say so themselves, most of them PyTorch's own."""

from __future__ import annotations

from typing import NamedTuple


class Advice(NamedTuple):
    """In which function something is raised, part of what it says, and what helps."""

    raised_in: str
    says: str
    do: str


ADVICE = (
    Advice("", "can never complete", "All ranks of a group must make the same calls, and every send needs a receive."),
    Advice("init_process_group", "twice", "These ranks already have a process group: remove this line."),
    Advice("destroy_process_group", "cannot be None", "The process group has already been destroyed."),
    Advice(
        "", "has not been initialized", "The process group has already been destroyed: destroy it only at the very end."
    ),
    Advice(
        "", "backend type associated with device type cpu", "This group works on GPUs: move the tensor to a GPU first."
    ),
    Advice(
        "batch_isend_irecv",
        "index out of range",
        "The list is empty: do not call this when there is nothing to exchange.",
    ),
    Advice("all_gather_object", "index out of range", "The list needs an entry for each rank: [None] * world_size."),
    Advice(
        "all_gather_object",
        "pickle",
        "Objects are sent as pickles: send something that can be pickled, such as a state_dict.",
    ),
    Advice(
        "", "is not part of group", "src, dst and root are global rank numbers, and these ranks must be in the group."
    ),
)


def advice_on(message: str, functions: list[str]) -> str:
    """What to do about an error that came through these functions; nothing where that is not known."""
    fits = (one.do for one in ADVICE if one.says in message and (not one.raised_in or one.raised_in in functions))
    return next(fits, "")
