"""What a student gets back: one page, and the same as plain text. Points, what holds, what does not, hints, a timeline.

The page has no test's code and no model answer in it. Whatever came from the submission is text, bounded in length.
"""

from __future__ import annotations

import re

from utils import plots
from utils.facts import Exercise, Finding, Lab
from utils.grading.grade import Grade
from utils.grading.tell import pages
from utils.grading.tell.text import clean, line
from utils.trace import PHASES, Event, Timeline

# What became of a submission, told to its student.
IN_WORDS = {
    "ok": "Your notebook ran from top to bottom.",
    "error": "A cell of your notebook raised an error. Everything that does not depend on it was graded.",
    "timeout": "Something in your notebook did not finish in time. It was left out, and the rest was graded.",
    "crash": "Something in your notebook ended the kernel. It was left out, and the rest was graded.",
    "missing": "There was nothing to grade. If you did hand in, tell your instructor.",
    "not-graded": "Your notebook could not be graded, and that is not your fault. You will get your points later.",
    "not-a-notebook": "What you handed in cannot be read as a notebook. Save it in Jupyter, and hand in the .ipynb.",
}
LONGEST_FOUND = 2000  # characters of what was found
MOST_DEVICES, MOST_EVENTS, MOST_LABELS = 8, 4000, 64  # of a timeline that is drawn

STYLE = """
.head{display:flex;flex-wrap:wrap;gap:.4rem 1.5rem;justify-content:space-between;align-items:baseline}
.total{font-size:2rem;font-weight:700;line-height:1.1;white-space:nowrap}.total small{font-size:1rem;font-weight:400}
.track{height:.6rem;border-radius:.3rem;background:var(--track);overflow:hidden;margin:.6rem 0 1rem}
.track div{height:100%;background:var(--bar)}
.exercise{border-left:5px solid var(--line)}.exercise.passed{border-left-color:var(--good)}
.exercise.lost{border-left-color:var(--bad)}
.row{display:flex;gap:1rem;justify-content:space-between;align-items:baseline}
.points{white-space:nowrap;font-weight:600}.passed .points{color:var(--good)}.lost .points{color:var(--bad)}
ul.facts{list-style:none;margin:.5rem 0 0;padding:0}
ul.facts li{padding-left:1.6rem;position:relative;margin:.25rem 0}
ul.facts b{position:absolute;left:0;width:1.2rem;text-align:center}
.holds b{color:var(--good)}.fails b{color:var(--bad)}
.hints{margin-top:.6rem}.hints details details{margin-top:.3rem}.hints p{margin:.2rem 0 .4rem}
"""


def student_page(grade: Grade, lab: Lab, warning: str = "") -> str:
    """One student's result as an HTML page of its own: readable on a phone, in light and dark, and on paper.

    `warning` is about the whole run, and stands at the end.
    """
    most = lab.points
    share = 100 * min(max(grade.total / most, 0), 1) if most else 0
    total = "not graded yet" if grade.status == "not-graded" else f"{grade.total} <small>of {most} points</small>"
    body = [
        f'<div class="head"><div><h1>{pages.html(lab.title)}</h1>'
        f'<div class="soft">{pages.html(lab.name)} · {pages.name(grade.student)}</div></div>'
        f'<div class="total">{total}</div></div>',
        f'<div class="track"><div style="width:{share:.4g}%"></div></div>',
    ]
    words = pages.html(_status_words(grade))
    if grade.status == "ok":
        body.append(f'<p class="soft">{words}</p>')
    else:
        note = f"<pre>{pages.html(grade.note, 600)}</pre>" if grade.note else ""
        body.append(f'<div class="notice">{words}{note}</div>')
    body += [_exercise(grade, name, exercise) for name, exercise in lab.exercises.items()]
    body.append(
        '<p class="soft small">Each exercise gives all its points or none. Facts are looked at in order, up to the '
        "first that does not hold.</p>"
    )
    if warning:
        body.append(f'<p class="notice small">{pages.html(warning)}</p>')
    return pages.page(f"{lab.title}: {line(grade.student, 80)}", "\n".join(body), "46rem", STYLE)


def student_text(grade: Grade, lab: Lab, warning: str = "") -> str:
    """One student's result as plain text. The hints come last, each after the one before."""
    most = lab.points
    total = "not graded yet" if grade.status == "not-graded" else f"{grade.total} of {most} points"
    lines = [f"{lab.title} ({lab.name}), {line(grade.student, 80)}: {total}"]
    if grade.status != "ok":
        note = f" ({line(grade.note, 600)})" if grade.note else ""
        lines.append(f"status: {line(grade.status, 40)}. {_status_words(grade)}{note}")
    hints = []
    for name, exercise in lab.exercises.items():
        found = grade.findings.get(name, [])
        lines += ["", f"{name}  {grade.points.get(name, 0)} / {exercise.points}  {exercise.title}"]
        for finding in found:
            lines.append(f"  {'yes' if finding.holds else 'NO '}  {line(finding.claim, 300)}")
            lines += [f"       {row}" for row in clean(finding.found, LONGEST_FOUND).splitlines()]
        if _not_looked_at(exercise, found):
            lines.append(f"       {_not_looked_at(exercise, found)}")
        recorded = timeline_from(grade.timelines.get(name))
        if recorded is not None:
            lines.append(f"  Your own answer at work: {_in_a_line(recorded)}")
        if _failed(found):
            hints += ["", f"{name}  {exercise.title}"]
            hints += [f"  {number} of {len(exercise.hints)}: {hint}" for number, hint in enumerate(exercise.hints, 1)]
    if hints:
        lines += ["", "", "Hints. Read one, try it, and come back for the next.", *hints]
    if warning:
        lines += ["", warning]
    return "\n".join(lines) + "\n"


def _status_words(grade: Grade) -> str:
    return IN_WORDS.get(grade.status, f"Something went wrong while your notebook ran: {line(grade.status, 40)}.")


def _failed(found: list[Finding]) -> bool:
    return any(not finding.holds for finding in found)


def _not_looked_at(exercise: Exercise, found: list[Finding]) -> str:
    left = len(exercise.facts) - len(found)
    if not _failed(found) or left < 1:
        return ""
    return "1 more fact was not looked at." if left == 1 else f"{left} more facts were not looked at."


def _exercise(grade: Grade, name: str, exercise: Exercise) -> str:
    found = grade.findings.get(name, [])
    got = grade.points.get(name, 0)
    facts = "".join(_fact(finding) for finding in found)
    more = _not_looked_at(exercise, found)
    facts += f'<li class="soft">{more}</li>' if more else ""
    parts = [f'<ul class="facts">{facts}</ul>' if facts else '<p class="soft">Nothing could be looked at.</p>']
    if _failed(found):
        parts.append(_hints(exercise))
    recorded = timeline_from(grade.timelines.get(name))
    if recorded is not None:
        parts.append(pages.figure(plots.timeline(recorded), f"Your own answer at work: {_in_a_line(recorded)}"))
    # The grade decides; a colour only where something was judged.
    kind = "" if not found else " passed" if not _failed(found) else " lost"
    title = f"{pages.html(name)}: {pages.html(exercise.title)}"
    return (
        f'<section class="card exercise{kind}"><div class="row"><h3>{title}</h3>'
        f'<span class="points">{got} / {exercise.points}</span></div>{"".join(parts)}</section>'
    )


def _fact(finding: Finding) -> str:
    claim = pages.html(finding.claim, 300)
    if finding.holds:
        return f'<li class="holds"><b role="img" aria-label="holds">✓</b>{claim}</li>'
    words = f"<pre>{pages.html(finding.found, LONGEST_FOUND)}</pre>" if finding.found else ""
    return f'<li class="fails"><b role="img" aria-label="does not hold">✗</b>{claim}{words}</li>'


def _hints(exercise: Exercise) -> str:
    """Each hint inside the one before it, so that one click opens one."""
    count, inside = len(exercise.hints), ""
    for number in range(count, 0, -1):
        hint = pages.html(exercise.hints[number - 1])
        inside = f"<details><summary>Hint {number} of {count}</summary><p>{hint}</p>{inside}</details>"
    return f'<div class="hints">{inside}</div>' if inside else ""


# --- timelines ------------------------------------------------------------------------------------------------


def _in_a_line(recorded: Timeline) -> str:
    busy = ", ".join(f"{device} works {share:.0%}" for device, share in recorded.utilisation().items())
    return f"{busy} of {recorded.span * 1e3:.3g} ms ({recorded.source})."


def timeline_from(data: object) -> Timeline | None:
    """The timeline that a stranger's data describes, or None for what is none, too large, or has no length."""
    try:
        devices = tuple(_word(device) for device in _list(data["devices"], MOST_DEVICES))
        begin, end = _number(data["begin"]), _number(data["end"])
        events = tuple(_event(event, devices) for event in _list(data["events"], MOST_EVENTS))
        source = line(_text(data["source"]), 120).replace("$", "")
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    fits = devices and len(set(devices)) == len(devices) and begin < end and source.isascii()
    if not fits or len({event.label for event in events}) > MOST_LABELS:
        return None
    return Timeline(devices, events, begin, end, source)


def _event(row: object, devices: tuple[str, ...]) -> Event:
    device, stream, what, kind, phase, start, end = _list(row, 13)[:7]
    other, label = (row[10], row[12]) if len(row) == 13 else (None, "")
    start, end = _number(start), _number(end)
    # A copy may begin or end outside the devices that are drawn.
    if kind not in ("kernel", "h2d", "d2h", "d2d") or phase not in PHASES or not 0 <= start <= end:
        raise ValueError
    if kind == "kernel" and device not in devices:
        raise ValueError
    other = None if other is None else _word(other)
    label = _word(label) if label else ""
    what, stream = _text(what)[:40], int(_number(stream))
    return Event(_word(device), stream, what, kind, phase, start, end, None, 0, 0, other, "", label)


def _list(value: object, most: int) -> list:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise ValueError
    return list(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _word(value: object) -> str:
    """A short name that may be written into a picture."""
    if not re.fullmatch(r"[A-Za-z0-9_:.\- ]{1,24}", _text(value)):
        raise ValueError
    return value


def _number(value: object) -> float:
    # Neither NaN, nor infinite, nor a whole number that is no float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 <= value <= 1e9:
        raise ValueError
    return float(value)
