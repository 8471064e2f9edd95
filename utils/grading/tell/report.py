"""What an instructor gets: one page about a class. Totals, exercises, misconceptions, and who needs a person's look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from urllib.parse import quote

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from utils import plots
from utils.facts import Finding, Lab
from utils.grading.grade import LOOK_AT, STATUSES, Grade
from utils.grading.run.submissions import file_stem
from utils.grading.tell import misconceptions, pages

ODD = "something in the notebook is odd"
UNANSWERED = ("", "YOUR ANSWER HERE", "*Double-click, and write here.*")
LONGEST_ANSWER = 1500
NOTHING = '<span class="soft">&ndash;</span>'

STYLE = """
.numbers{display:flex;flex-wrap:wrap;gap:.6rem;margin:1.2rem 0}
.numbers div{border:1px solid var(--line);border-radius:10px;padding:.5rem .9rem;min-width:7.5rem}
.numbers b{display:block;font-size:1.5rem;line-height:1.2}
.meter{display:inline-block;vertical-align:middle;width:6rem;height:.6rem;border-radius:.3rem;background:var(--track);
overflow:hidden;margin-right:.5rem}.meter span{display:block;height:100%;background:var(--bar)}
.answers{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,19rem),1fr));gap:.7rem;margin-top:.6rem}
.answers .card{margin:0;white-space:pre-wrap}.answers .card div{white-space:normal;font-weight:600}
.lost{color:var(--bad);font-weight:600}nav a{margin-right:1rem;white-space:nowrap}
td{min-width:3rem}ul{margin:0;padding-left:1.1rem}details{margin:.5rem 0}
.look table{table-layout:fixed}.look th:nth-child(1){width:30%}.look th:nth-child(2){width:4.6rem}
.look .scroll{margin-top:.2rem}
"""


def class_page(grades: Sequence[Grade], lab: Lab, warning: str = "") -> str:
    """The report of a class as one HTML page, to lie beside the folder feedback/. Same grades, same bytes.

    `warning` is about the whole run, and stands first.
    """
    grades = sorted(grades, key=lambda grade: grade.student)
    judged = [grade for grade in grades if grade.judged]
    parts = [f"<h1>{pages.html(lab.title)}: the class</h1>", f'<div class="soft">{pages.html(lab.name)}</div>']
    if warning:
        parts.append(f'<p class="notice">{pages.html(warning)}</p>')
    parts.append(_numbers(grades, judged, lab))
    sections = {
        "look": ("Look at these by hand", _to_look_at(grades)),
        "totals": ("Points", _totals(grades, judged, lab)),
        "exercises": ("Exercises, hardest first", _exercises(judged, lab)),
        "misconceptions": ("Likely misconceptions", _misconceptions(judged, lab)),
        "statuses": ("What became of the submissions", _statuses(grades)),
        "answers": ("In their own words", _free_text(grades)),
        "students": ("All students", _students(grades, lab)),
    }
    shown = {anchor: section for anchor, section in sections.items() if section[1]}
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, (title, _) in shown.items())
    parts.append(f'<nav class="small">{links}</nav>')
    parts += [f'<h2 id="{anchor}">{title}</h2>\n{section}' for anchor, (title, section) in shown.items()]
    return pages.page(f"{lab.title}: the class", "\n".join(parts), "70rem", STYLE)


def likely_misconceptions(grades: Sequence[Grade], lab: Lab) -> dict[tuple[str, tuple[str, ...]], list[str]]:
    """(exercise, what those students may think) -> the students, most first. Several thoughts where they look alike."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for grade in grades:
        for exercise in lab.exercises:
            finding = _first_failed(grade, exercise)
            thoughts = misconceptions.likely(lab.name, exercise, finding) if finding else []
            if thoughts:
                found.setdefault((exercise, tuple(thoughts)), []).append(grade.student)
    return dict(sorted(found.items(), key=lambda item: (-len(item[1]), item[0])))


def _first_failed(grade: Grade, exercise: str) -> Finding | None:
    return next((finding for finding in grade.findings.get(exercise, []) if not finding.holds), None)


def _link(grade: Grade) -> str:
    return f'<a href="feedback/{quote(file_stem(grade.student) + ".html")}">{pages.name(grade.student)}</a>'


def _links(grades: Sequence[Grade], most: int = 12) -> str:
    """Links to some students, and those to the others where one can unfold them."""
    first, rest = ", ".join(map(_link, grades[:most])), grades[most:]
    if not rest:
        return first
    return f"{first}<details><summary>and {len(rest)} more</summary>{', '.join(map(_link, rest))}</details>"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


# --- the sections -----------------------------------------------------------------------------------------------


def _numbers(grades: Sequence[Grade], judged: Sequence[Grade], lab: Lab) -> str:
    totals = pd.Series([grade.total for grade in judged], dtype=float)
    boxes = {"students": str(len(grades)), "judged": str(len(judged))}
    if len(totals):
        most = lab.points
        boxes |= {"median": f"{totals.median():g} / {most}", "mean": f"{totals.mean():.1f} / {most}"}
        boxes["full points"] = str(int((totals == lab.points).sum()))
    boxes["to look at by hand"] = str(sum(bool(grade.reasons_to_look) for grade in grades))
    return '<div class="numbers">' + "".join(f"<div><b>{b}</b>{a}</div>" for a, b in boxes.items()) + "</div>"


def _to_look_at(grades: Sequence[Grade]) -> str:
    """Groups by what the matter is, what was flagged first. In a large class they are closed, with their number."""
    groups: dict[str, list[list[str]]] = {ODD: []}
    groups |= {words: [] for words in LOOK_AT.values()}
    for grade in grades:
        reasons = grade.reasons_to_look
        if reasons:
            group = ODD if grade.flags else reasons[0]
            more = [reason for reason in reasons if reason != group]
            listed = "<ul>" + "".join(f"<li>{pages.html(reason)}</li>" for reason in more) + "</ul>" if more else ""
            note = f'<div class="soft small">{pages.html(grade.note, 300)}</div>' if grade.note else ""
            points = NOTHING if not grade.judged else str(grade.total)
            groups.setdefault(group, []).append([_link(grade), points, listed + note])
    groups = {words: rows for words, rows in groups.items() if rows}
    if not groups:
        return "<p>Nobody. Every submission ran, and nothing about one is odd.</p>"
    opened = " open" if sum(map(len, groups.values())) <= 15 else ""
    return "".join(
        f'<details class="look"{opened}><summary>{pages.html(words)} ({len(rows)})</summary>'
        f"{pages.table(['student', 'points', 'what was found'], rows, numbers=['points'])}</details>"
        for words, rows in groups.items()
    )


def _totals(grades: Sequence[Grade], judged: Sequence[Grade], lab: Lab) -> str:
    left = Counter(grade.status for grade in grades if not grade.judged)
    words = ", ".join(f"{number} {status}" for status, number in sorted(left.items()))
    without = f"<p>Not in this picture, because nothing could be judged: {pages.html(words)}.</p>" if left else ""
    if not judged:
        return without or "<p>Nobody handed in anything.</p>"
    picture = totals_picture([grade.total for grade in judged], lab.points, _source(judged, lab))
    return pages.figure(picture, picture.summary) + without


def _exercises(judged: Sequence[Grade], lab: Lab) -> str:
    if not judged:
        return ""
    solved = pd.DataFrame([{n: _solved(g, n) for n in lab.exercises} for g in judged]).mean()
    order = list(solved.sort_values(kind="stable").index)
    picture = exercises_picture({name: solved[name] for name in order}, _source(judged, lab))
    rows = []
    for name in order:
        stops = Counter(failed.claim for grade in judged if (failed := _first_failed(grade, name)))
        ranked = sorted(stops.items(), key=lambda item: (-item[1], item[0]))[:3]
        where = "".join(f"<li>{pages.html(claim, 300)} <b>({number})</b></li>" for claim, number in ranked)
        percent = f"{100 * solved[name]:.0f}%"
        meter = f'<span class="meter"><span style="width:{100 * solved[name]:.4g}%"></span></span>{percent}'
        title = f"<b>{pages.html(name)}</b> {pages.html(lab.exercises[name].title)}"
        count = sum(_solved(grade, name) for grade in judged)
        rows.append([title, f'<span style="white-space:nowrap">{meter}</span>', f"{count} of {len(judged)}"])
        rows[-1].append(f"<ul>{where}</ul>" if where else '<span class="soft">nobody</span>')
    columns = ["exercise", "solved", "students", "the first fact that did not hold (students)"]
    return pages.figure(picture, picture.summary) + pages.table(columns, rows, numbers=["students"])


def _solved(grade: Grade, exercise: str) -> bool:
    return grade.points.get(exercise, 0) > 0


def _misconceptions(judged: Sequence[Grade], lab: Lab) -> str:
    found = likely_misconceptions(judged, lab)
    by_name = {grade.student: grade for grade in judged}
    rows = []
    for (exercise, thoughts), students in found.items():
        said = " <b>or:</b> ".join(pages.html(thought, 300) for thought in thoughts[:3])
        more = f" <span class='soft'>or {len(thoughts) - 3} more</span>" if len(thoughts) > 3 else ""
        rows.append([pages.html(exercise), str(len(students)), said + more, _links([by_name[s] for s in students])])
    lost = sum(_first_failed(grade, name) is not None for grade in judged for name in lab.exercises)
    known = sum(map(len, found.values()))
    intro = (
        f"<p>{_count(lost, 'exercise')} lost by these students, {known} of them in a way that a known wrong answer is "
        "lost, too: same fact, same words. So it is likely that this is what the student thinks, and not certain.</p>"
    )
    if not lost:
        return "<p>No fact failed.</p>"
    columns = ["exercise", "students", "as in the known wrong answer of one who", "who"]
    return intro + (pages.table(columns, rows, numbers=["students"]) if rows else "")


def _statuses(grades: Sequence[Grade]) -> str:
    counts = Counter(grade.status for grade in grades)
    order = [*[status for status in STATUSES if status in counts], *sorted(set(counts) - set(STATUSES))]
    rows = []
    for status in order:
        those = [grade for grade in grades if grade.status == status]
        who = '<span class="soft">the others</span>' if status == "ok" and len(counts) > 1 else _links(those)
        rows.append([pages.html(status, 40), str(len(those)), pages.html(STATUSES.get(status, "")), who])
    return pages.table(["status", "students", "what it means", "who"], rows, numbers=["students"])


def _free_text(grades: Sequence[Grade]) -> str:
    questions = sorted({name for grade in grades for name in grade.free_text})
    parts = []
    for question in questions:
        answered = [g for g in grades if str(g.free_text.get(question, "")).strip() not in UNANSWERED]
        cards = "".join(
            f'<div class="card small"><div>{_link(g)}</div>{pages.html(g.free_text[question], LONGEST_ANSWER)}</div>'
            for g in answered
        )
        opened = " open" if len(answered) <= 60 else ""
        summary = f"{pages.html(question, 80)}: {_count(len(answered), 'answer')} of {_count(len(grades), 'student')}"
        parts.append(f'<details{opened}><summary>{summary}</summary><div class="answers">{cards}</div></details>')
    return "".join(parts)


def _students(grades: Sequence[Grade], lab: Lab) -> str:
    rows = []
    for grade in grades:
        marks, total = [_mark(grade.points.get(name, 0)) for name in lab.exercises], f"<b>{grade.total}</b>"
        if not grade.judged:  # no points are no zero where nothing could be judged
            marks, total = [NOTHING] * len(marks), NOTHING
        look = "look" if grade.reasons_to_look else ""
        rows.append([_link(grade), pages.html(grade.id, 40), total, *marks, pages.html(grade.status, 40), look])
    titled = [f"{name} ({exercise.points})" for name, exercise in lab.exercises.items()]
    columns = ["student", "id", f"total ({lab.points})", *titled, "status", "by hand"]
    if not any(grade.id for grade in grades):
        columns.remove("id")
        rows = [[row[0], *row[2:]] for row in rows]
    return pages.table(columns, rows, numbers=[columns[1 + ("id" in columns)], *titled])


def _mark(points: int) -> str:
    return str(points) if points else '<span class="lost">0</span>'


# --- pictures -----------------------------------------------------------------------------------------------------


def _source(judged: Sequence[Grade], lab: Lab) -> str:
    return f"{lab.name}, {_count(len(judged), 'submission')} judged"


def _axes(height: float, source: str):
    figure = Figure(figsize=(plots.WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=plots.INK, labelsize=9)
    figure.supxlabel(source, fontsize=8, color=plots.INK, x=0.01, ha="left")
    return figure, axes


def totals_picture(totals: Sequence[int], most: int, source: str) -> plots.Picture:
    """How many students have each total, and the median."""
    series = pd.Series(totals, dtype=float)
    counts = series.value_counts().reindex(range(most + 1), fill_value=0)
    figure, axes = _axes(2.8, source)
    bars = axes.bar(counts.index, counts.to_numpy(), width=0.82, color=plots.BLUE, edgecolor="white")
    written = [str(int(number)) if number else "" for number in counts]
    for label in axes.bar_label(bars, written, fontsize=9, color=plots.INK, padding=3):
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1} if label.get_text() else None)
    axes.axvline(series.median(), color=plots.RED, linestyle="--", linewidth=1.5, label=f"median {series.median():g}")
    axes.set_xticks(range(most + 1))
    axes.set_xlim(-0.6, most + 0.6)
    axes.margins(y=0.15)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(f"points, of {most}", fontsize=9, color=plots.INK)
    axes.set_ylabel("students", fontsize=9, color=plots.INK)
    figure.legend(loc="outside upper right", fontsize=9, frameon=False)
    quarters = f"{series.quantile(0.25):g} to {series.quantile(0.75):g}"
    summary = (
        f"Median {series.median():g} of {most} points, mean {series.mean():.1f}, the middle half from {quarters} "
        f"({source})."
    )
    words = ", ".join(f"{points}: {int(number)}" for points, number in counts.items() if number)
    return plots.Picture(figure, f"Students by total. {words}. {summary}", summary)


def exercises_picture(solved: dict[str, float], source: str) -> plots.Picture:
    """The share of students who solved each exercise, in the order given."""
    figure, axes = _axes(0.9 + 0.36 * len(solved), source)
    names = list(solved)
    for row, share in enumerate(solved.values()):
        axes.barh(row, 100, height=0.6, color="#F0F0F0")
        axes.barh(row, 100 * share, height=0.6, color=plots.BLUE, edgecolor="white")
        axes.text(101, row, f"{100 * share:.0f}%", va="center", fontsize=9, color=plots.INK)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 108)
    axes.set_xticks(range(0, 101, 20))
    axes.set_xlabel("solved by, % of students", fontsize=9, color=plots.INK)
    words = ", ".join(f"{name} {100 * share:.0f}%" for name, share in solved.items())
    hardest = f"Hardest: {names[0]}, solved by {100 * solved[names[0]]:.0f}%" if names else "No exercises"
    return plots.Picture(figure, f"Exercises, hardest first. {words} ({source}).", f"{hardest} ({source}).")
