"""The instructor's page of a class, as HTML: how far it is, where it is stuck, and how full the machine is."""

from __future__ import annotations

from html import escape

import psutil

from utils.hub.class_folder import ClassFolder
from utils.hub.hands import Hands
from utils.hub.progress import Progress

GIB = 2**30
HOW = {-9: "killed, as Linux does when memory is full", -11: "crashed (segmentation fault)", -6: "aborted"}


def live_page(of: ClassFolder, progress: Progress, hands: Hands, form: str = "") -> str:
    """The body of the page. Raises nothing for whatever students sent. `form` is what a button of it has to send."""
    parts = [] if of.live else ["<p>Off: set <code>live = true</code> in class.toml, and start the class again.</p>"]
    parts.append(_hands(hands, form))
    for lab in progress.labs:
        parts += [_counts(lab, progress), _stuck(lab, progress), _names(lab, progress)]
    if of.live and not progress.labs:
        parts.append("<p>No check yet.</p>")
    return "\n".join([*parts, _died(progress), _machine(of)])


def _hands(hands: Hands, form: str) -> str:
    rows = "".join(
        f"<tr><td>{escape(hand.student)}</td><td>{escape(hand.at)}</td><td>{waited / 60:.0f} min</td><td>"
        f'<form method="post">{form}<button name="student" value="{escape(hand.student)}">Helped</button></form>'
        "</td></tr>"
        for hand, waited in hands.waiting()
    )
    return f'<h2>Hands up</h2><table class="large">{rows}</table>' if rows else ""


def _died(progress: Progress) -> str:
    rows = "".join(
        f"<tr><td>{escape(student)}</td><td>{HOW.get(code, f'ended with exit code {code}')}</td>"
        f"<td>{ago / 60:.0f} min ago</td></tr>"
        for student, code, ago in progress.died_lately()
    )
    return f"<h2>Kernels that died in the last ten minutes</h2><table>{rows}</table>" if rows else ""


def _counts(lab: str, progress: Progress) -> str:
    students = len(progress.of_lab(lab))
    rows = "".join(
        f'<tr><td>{escape(exercise)}</td><td class="passed">{passed} passed</td>'
        f'<td class="trying">{f"{trying} not yet" if trying else ""}</td></tr>'
        for exercise, (passed, trying) in progress.counts(lab).items()
    )
    return f'<h2>{escape(lab)}: {students} students have checked</h2><table class="large">{rows}</table>'


def _stuck(lab: str, progress: Progress) -> str:
    found = progress.stuck_at(lab)
    if not found:
        return ""
    rows = "".join(
        f"<tr><td>{count}</td><td>{escape(exercise)}</td><td>{escape(claim)}</td><td>{escape(thought)}</td></tr>"
        for exercise, claim, thought, count in found
    )
    return (
        '<h3>Facts that did not hold in the last ten minutes</h3><table class="facts"><tr><th>students</th>'
        f"<th>exercise</th><th>fact</th><th>such students may think</th></tr>{rows}</table>"
    )


def _names(lab: str, progress: Progress) -> str:
    rows = []
    for student, exercises in progress.of_lab(lab).items():
        told = ", ".join(
            f"{escape(name)} {'passed' if one.passed else 'not yet'} ({one.tries})"
            for name, one in sorted(exercises.items())
        )
        rows.append(f"<tr><td>{escape(student)}</td><td>{told}</td></tr>")
    return f"<details><summary>By student (tries in brackets)</summary><table>{''.join(rows)}</table></details>"


def _machine(of: ClassFolder) -> str:
    memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(of.path))
    used = memory.total - memory.available
    return (
        f"<h2>This machine</h2><p>Memory: {used / GIB:.1f} of {memory.total / GIB:.1f} GiB in "
        f"use. Disk: {disk.free / GIB:.0f} GiB free.</p>"
    )
