"""What a notebook tells the service of its class (utils/hub): by HTTP, on this machine, with its server's token."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import urllib.error
import urllib.request
from dataclasses import dataclass
from html import escape

from utils.common.settings import HAND_IN, PROGRESS
from utils.exercises.facts import Finding
from utils.exercises.facts.alike import likeness

TOKEN = "JUPYTERHUB_API_TOKEN"
SECONDS = 180  # sixty who begin at once have had a hub wait for a minute


@dataclass(frozen=True)
class Told:
    """What came of it: lines, the first of which says whether it was done."""

    done: bool
    lines: tuple[str, ...]

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        colour = "#2e8b57" if self.done else "#d9822b"
        first, *others = map(escape, self.lines)
        more = "".join(f"<div>{line}</div>" for line in others)
        return f"<div style='border-left:5px solid {colour};padding:.2em 0 .2em .9em'><b>{first}</b>{more}</div>"


def address() -> str:
    """Where the service is, or nothing: there is no hub."""
    return os.environ.get(HAND_IN, "") if os.environ.get(TOKEN) else ""


def send(path: str, what: dict, within: float | None = None) -> dict:
    """The service's answer. Raises OSError where there is none."""
    request = urllib.request.Request(
        address() + path,
        data=json.dumps(what).encode(),
        headers={"Authorization": f"token {os.environ[TOKEN]}", "Content-Type": "application/json"},
    )
    # Never by a proxy: it is this machine's own address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=SECONDS if within is None else within) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        try:
            told = json.load(error)
        except ValueError:
            told = {}
        if "problem" in told:
            return told
        raise OSError(f"the hub answered {error.code} {error.reason}") from None
    except ValueError:
        raise OSError("the hub's answer cannot be read") from None


def instructor_looks() -> bool:
    """Whether the class has a page that shows what checks say."""
    return os.environ.get(PROGRESS) == "1" and bool(address())


def tell_progress(lab: str, exercise: str, failed: Finding | None) -> None:
    """Tell the instructor's page what a check said, where the class has one. Nothing waits for it, and no code goes.

    `failed` is the first fact that does not hold. Of its message only a fingerprint goes: a value of the student's may
    be in the message.
    """
    if instructor_looks():
        what = {"lab": lab, "exercise": exercise, "passed": failed is None}
        what |= {"claim": failed.claim, "alike": likeness(failed.found)} if failed else {"claim": "", "alike": ""}
        _tell("progress", what)


def tell_of_a_dead_kernel(code: int) -> None:
    """Tell it of a kernel that ended by itself: an exit code, or a signal's number below 0."""
    if instructor_looks():
        _tell("died", {"code": code})


def _tell(path: str, what: dict) -> None:
    def told() -> None:
        with contextlib.suppress(OSError):  # the page misses one; the student misses nothing
            send(path, what, within=5)

    threading.Thread(target=told, daemon=True).start()
