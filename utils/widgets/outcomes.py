"""Whether the cell before this one worked or raised: for a lesson in which an error is what there is to see."""

from __future__ import annotations

WORKS, RAISES = "works", "raises"
_last = WORKS
_told: set[int] = set()  # the shells that tell


def outcome() -> str:
    """ "works" or "raises": how the cell that ran before this one ended."""
    return _last


def note_outcomes() -> None:
    """From now on, remember how each cell of this notebook ends. Does nothing outside a notebook."""
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
    _last = WORKS if result.success else RAISES
