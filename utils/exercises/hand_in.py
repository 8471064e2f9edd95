"""Handing in from a notebook, where the course runs on a class's hub (utils/hub).

    from utils.exercises.hand_in import hand_in, hand_in_button
    hand_in_button("lab01")    # the last cell of each lab
    hand_in("lab01")           # the same at once

It sends the notebook as it was last saved. Where there is no hub it says which file to upload.
"""

from __future__ import annotations

import ast
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from utils.common.settings import GRADING, WIDGETS
from utils.exercises.check import last_verdicts
from utils.exercises.class_service import Told, address, send


def hand_in(lab: str, file: str | None = None) -> Told:
    """Hand in the notebook of a lab, and show the receipt. `file` says which one, if this folder has several.

    A later call replaces an earlier one. Nothing is raised: what went wrong stands in the answer, with what to do.
    """
    notebook, reason = _notebook(lab, file), no_hub()
    if reason:
        which = f"this file: {notebook.resolve()}" if isinstance(notebook, Path) else "this notebook"
        return Told(False, (f"Not handed in: {reason}.", f"Save, then upload {which}"))
    if isinstance(notebook, str):
        return Told(False, ("Not handed in.", notebook))
    try:
        text = notebook.read_text(encoding="utf-8")
        told = send(f"hand_in/{lab}", {"file": notebook.name, "notebook": text, "said": _said(lab)})
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "reason", None) or error
        if isinstance(reason, TimeoutError):
            return Told(
                False, ("Perhaps not handed in: the hub did not answer in time.", "Hand in again: twice does no harm.")
            )
        return Told(False, (f"Not handed in: {reason}.", "Try again. If it still fails, tell your instructor."))
    if "problem" in told:
        return Told(False, (f"Not handed in: {told['problem']}.",))
    late = f", {told['late']}" if told["late"] else ""
    lines = [
        f"Handed in: {lab}, {_utc(told['at'])}{late}",
        f"{told['file']}, as saved {_ago(notebook)} ago, {told['size']} bytes, SHA-256 {told['sha256'][:16]}",
    ]
    if told["replaces"]:
        lines.append(f"It replaces the one handed in at {_utc(told['replaces'])}.")
    for name in unsaved(_ran(), text):
        lines.append(f"The saved file does not have {name} as you last ran it. Save (Ctrl+S), then hand in again.")
    return Told(True, tuple(lines))


def hand_in_button(lab: str, file: str | None = None):
    """A button that hands in when it is clicked. Running its cell hands nothing in, so all cells can be run at once."""
    if no_hub():
        return hand_in(lab, file)
    if os.environ.get(WIDGETS) == "0":
        return Told(False, (f'To hand in: hand_in("{lab}")',))
    import ipywidgets
    from IPython.display import display

    button = ipywidgets.Button(description=f"Hand in {lab}", tooltip="Save the notebook first (Ctrl+S)")
    shown = ipywidgets.Output()

    def clicked(_) -> None:
        shown.clear_output()
        with shown:
            display(hand_in(lab, file))

    button.on_click(clicked)
    return ipywidgets.VBox([button, shown])


def no_hub() -> str:
    """Why nothing can be handed in from here, or nothing."""
    if os.environ.get(GRADING):
        return "the grader is running this notebook"
    return "" if address() else "there is no hub here"


def _notebook(lab: str, file: str | None) -> Path | str:
    """The notebook to hand in, or why there is none."""
    if file is not None:
        return Path(file) if Path(file).is_file() else f"There is no file {file} in {Path.cwd()}."
    found = sorted(Path().glob(f"{lab}*.ipynb"))
    if len(found) == 1:
        return found[0]
    if not found:
        return f"{Path.cwd()} has no notebook for {lab!r}. Run this in the lab's own notebook."
    return f"There are several here: {', '.join(map(str, found))}. Choose one: hand_in({lab!r}, {str(found[0])!r})"


def _said(lab: str) -> dict[str, str]:
    return {name: "passed" if passed else "not yet" for name, passed in last_verdicts(lab).items()}


def _utc(moment: str) -> str:
    """An ISO 8601 moment in UTC, as people write it."""
    return moment.replace("T", " ").replace("+00:00", " UTC")


def _ago(path: Path) -> str:
    seconds = max(0, time.time() - path.stat().st_mtime)
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _ran() -> list[str]:
    """The cells that this kernel ran, the oldest first."""
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    return list(shell.user_ns.get("In", ())) if shell else []


def unsaved(ran: Sequence[str], notebook: str) -> list[str]:
    """Functions and classes whose last run cell is not in the saved notebook."""
    try:
        saved = {"".join(cell["source"]).strip() for cell in json.loads(notebook)["cells"]}
    except (ValueError, KeyError, TypeError):
        return []
    latest: dict[str, str] = {}
    for source in ran:
        try:
            defined = [
                node.name for node in ast.parse(source).body if isinstance(node, (ast.FunctionDef, ast.ClassDef))
            ]
        except SyntaxError:  # a magic, or what did not run
            continue
        latest |= dict.fromkeys(defined, source)
    return [name for name, source in latest.items() if source.strip() not in saved]
