"""Handing in from a notebook, where the course runs on a class's hub (utils/hub).

    from utils.exercises.hand_in import hand_in
    hand_in("lab01")

It sends the notebook as it was last saved. Where there is no hub it says which file to upload.
"""

from __future__ import annotations

import ast
import json
import os
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from html import escape
from pathlib import Path

from utils.common.settings import GRADING, HAND_IN
from utils.exercises.check import last_verdicts

TOKEN = "JUPYTERHUB_API_TOKEN"
SECONDS = 60


@dataclass(frozen=True)
class Told:
    """What came of it: lines, the first of which says whether the notebook was handed in."""

    handed_in: bool
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        colour = "#2e8b57" if self.handed_in else "#d9822b"
        first, *others = map(escape, self.lines)
        more = "".join(f"<div>{line}</div>" for line in others)
        return f"<div style='border-left:5px solid {colour};padding:.2em 0 .2em .9em'><b>{first}</b>{more}</div>"


def hand_in(lab: str, file: str | None = None) -> Told:
    """Hand in the notebook of a lab, and show the receipt. `file` says which one, if this folder has several.

    A later call replaces an earlier one. Nothing is raised: what went wrong stands in the answer, with what to do.
    """
    if os.environ.get(GRADING):
        return Told(False, ("Not handed in here: the grader is running this notebook.",))
    notebook = _notebook(lab, file)
    if isinstance(notebook, str):
        return Told(False, ("Not handed in.", notebook))
    address, token = os.environ.get(HAND_IN), os.environ.get(TOKEN)
    if not address or not token:
        path = notebook.resolve()
        return Told(
            False, ("Not handed in: this course has no hub here.", f"Upload this file to your platform: {path}")
        )
    try:
        text = notebook.read_text(encoding="utf-8")
        told = _send(f"{address}hand_in/{lab}", token, {"file": notebook.name, "notebook": text, "said": _said(lab)})
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "reason", None) or error
        return Told(False, (f"Not handed in: {reason}.", "Try again. If it stays so, tell your instructor."))
    if "problem" in told:
        return Told(False, (f"Not handed in: {told['problem']}.",))
    late = f", {told['late']}" if told["late"] else ""
    lines = [
        f"Handed in: {lab}, {told['at'].replace('T', ' ').replace('+00:00', ' UTC')}{late}",
        f"{told['file']}, as saved {_ago(notebook)} ago, {told['size']} bytes, SHA-256 {told['sha256'][:16]}",
    ]
    lines += [f"It replaces the one of {told['replaces'].replace('T', ' ').replace('+00:00', ' UTC')}."] * bool(
        told["replaces"]
    )
    lines += [f"Your {name} was run after the last save: save (Ctrl+S), then hand in again." for name in _unsaved(text)]
    return Told(True, tuple(lines))


def _notebook(lab: str, file: str | None) -> Path | str:
    """The notebook to hand in, or why there is none."""
    if file is not None:
        return Path(file) if Path(file).is_file() else f"There is no file {file} in {Path.cwd()}."
    found = sorted(Path().glob(f"{lab}*.ipynb"))
    if len(found) == 1:
        return found[0]
    if not found:
        return f'{Path.cwd()} has no notebook of {lab!r}. Open the lab\'s notebook, and write hand_in("lab01") in it.'
    return f"There are several here: {', '.join(map(str, found))}. Say which: hand_in({lab!r}, {str(found[0])!r})"


def _send(address: str, token: str, what: dict) -> dict:
    """The service's answer. Raises OSError where there is none."""
    request = urllib.request.Request(
        address,
        data=json.dumps(what).encode(),
        headers={"Authorization": f"token {token}", "Content-Type": "application/json"},
    )
    # Never by a proxy: it is this machine's own address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=SECONDS) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        try:
            told = json.load(error)
        except ValueError:
            told = {}
        if "problem" in told:
            return told
        raise OSError(f"the hub answers {error.code} {error.reason}") from None
    except ValueError:
        raise OSError("the hub's answer cannot be read") from None


def _said(lab: str) -> dict[str, str]:
    return {name: "passed" if passed else "not yet" for name, passed in last_verdicts(lab).items()}


def _ago(path: Path) -> str:
    seconds = max(0, time.time() - path.stat().st_mtime)
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _unsaved(notebook: str) -> list[str]:
    """Functions and classes whose last run text is not in the saved notebook."""
    try:
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        saved = {"".join(cell["source"]).strip() for cell in json.loads(notebook)["cells"]}
    except (ImportError, ValueError, KeyError, TypeError):
        return []
    latest: dict[str, str] = {}
    for source in shell.user_ns.get("In", ()) if shell else ():
        try:
            for node in ast.parse(source).body:
                if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                    latest[node.name] = source
        except SyntaxError:  # a magic, or what did not run
            continue
    return [name for name, source in latest.items() if source.strip() not in saved]
