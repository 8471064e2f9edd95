"""What a notebook shows when its kernel was killed and a new one runs the next cell: on a hub, memory was full."""

from __future__ import annotations

from IPython.core.getipython import get_ipython
from IPython.display import display

from utils.exercises.class_service import Told

WORDS = Told(
    False,
    (
        "This is a new kernel: the one before was killed.",
        "Most often that is because all your programs together had more memory than a student may use. Shut down the "
        "notebooks that you don't need (the Running tab, on the left).",
        "Your variables are gone: run the notebook again from its first cell.",
    ),
)


def tell_at_the_next_cell() -> None:
    """Show it once, above the output of the cell that is run next."""
    shell = get_ipython()
    if shell is None:
        return

    def tell(*_) -> None:
        shell.events.unregister("pre_run_cell", tell)
        display(WORDS)

    shell.events.register("pre_run_cell", tell)
