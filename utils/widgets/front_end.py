"""Whether widgets would be seen, and showing things with and without them."""

from __future__ import annotations

import os

from utils.common.settings import GRADING, WIDGETS

# Set while notebooks run unattended: the grader, and pytest with nbval.
UNATTENDED = (GRADING, "PYTEST_VERSION", "PYTEST_CURRENT_TEST")
VIEW = "application/vnd.jupyter.widget-view+json"


def widgets_here():
    """The module ipywidgets, or None where widgets would not be seen."""
    wish = os.environ.get(WIDGETS, "")
    unseen = any(os.environ.get(name) for name in UNATTENDED) or not in_kernel()
    if wish == "0" or os.environ.get(GRADING) or (unseen and wish != "1"):
        return None
    try:
        import ipywidgets
    except ImportError:
        return None
    return ipywidgets


def in_kernel() -> bool:
    try:
        from IPython import get_ipython
    except ImportError:
        return False
    return getattr(get_ipython(), "kernel", None) is not None


def show(data: dict, metadata: dict | None = None, **options):
    """Display a bundle of forms of one thing in a notebook; elsewhere print its text."""
    if not in_kernel():
        print(data["text/plain"])
        return None
    from IPython.display import display

    return display(data, raw=True, metadata=metadata or {}, **options)


def mimebundle(widget, text: str) -> dict:
    """A widget, and what a view without widgets shows in its place."""
    return {"text/plain": text, VIEW: {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


def close(*widgets) -> None:
    for widget in widgets:
        close(*getattr(widget, "children", ()))
        widget.close()
