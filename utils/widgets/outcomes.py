"""How the cell that a question is about ended: for a lesson in which an error is what there is to see."""

from __future__ import annotations

import re

WORKS, RAISES = "works", "raises"
ASKS = ("predict(", ".compare(")  # cells that ask or tell, and are what no question is about
ANSWERS = re.compile(r"(\s*\w+\.answer *=.*(\n|$))+")  # a cell that answers, and does nothing else
_last: str | None = None
_told: set[int] = set()  # the shells that tell


class NothingHasRun(RuntimeError):
    """Cells were run out of their order. A notebook shows the message alone, because no line of code is at fault."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def outcome() -> str:
    """ "works" or "raises": how the cell that ran since the last question ended.

    Raises NothingHasRun where none has: a learner who runs cells out of order is told the truth or nothing.
    """
    if _last is None:
        raise NothingHasRun("No cell has run since the question. Run the cell above, then this one again.")
    return _last


def note_outcomes() -> None:
    """A question is asked: from now on, remember how a cell ends. Does nothing outside a notebook."""
    global _last
    _last = None
    try:
        from IPython import get_ipython
    except ImportError:
        return
    shell = get_ipython()
    if shell is not None and id(shell) not in _told:
        _told.add(id(shell))
        shell.events.register("post_run_cell", _note)


def _note(result) -> None:
    global _last
    cell = result.info.raw_cell or ""
    if not any(word in cell for word in ASKS) and not ANSWERS.fullmatch(cell):
        _last = WORKS if result.success else RAISES
