"""What an instructor gets: one page about a class. Totals, exercises, misconceptions, and who needs a person's look."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.ticker import MaxNLocator

from utils.exercises.facts import Exercise, Finding, Lab
from utils.grading.grade import STATUSES, Grade
from utils.grading.marking.mark import Mark, as_mark, most_of
from utils.grading.marking.words import answered
from utils.grading.tell import misconceptions, pages
from utils.grading.tell.exports.marks import Held, Marks
from utils.grading.tell.text import line
from utils.observe import plots

ODD = "something in the notebook is odd"


def class_page(
    grades: Sequence[Grade], lab: Lab, warning: str = "", *, rule: str = "", held: Sequence[Held] | None = None
) -> str:
    """The report of a class as one HTML page, to lie beside the folder feedback/. Same grades, same bytes.

    `warning` is about the whole run, and stands first. `rule` is when a submission is late, and what that costs. `held`
    are the rows of look_at.csv: without them, those whose marks are in doubt.
    """
    grades = sorted(map(as_mark, grades), key=lambda mark: mark.student)
    if held is None:
        held = Marks(grades, lab, None).look_at()
    most, known = most_of(lab, grades), [mark for mark in grades if mark.known]
    judged = [grade for grade in grades if grade.judged]
    source = f"{lab.name}, {len(judged)} submission{'' if len(judged) == 1 else 's'} judged"
    counted = source if len(known) == len(judged) else f"{lab.name}, {len(known)} marks"
    exercises, answers = _exercises(judged, lab), _answers(grades)
    sections = {"exercises": judged, "answers": answers}
    sections |= {"late": [mark for mark in grades if mark.late], "changed": [m for m in grades if m.overrides]}
    no_mark = Counter(mark.status for mark in grades if not mark.known)
    return pages.render(
        "class.html",
        grades=grades,
        judged=judged,
        lab=lab,
        warning=warning,
        most=most,
        rule=rule,
        sections=sections,
        numbers=_numbers(grades, judged, known, most, held),
        left_out=[section for section, rows in sections.items() if not rows],
        to_look_at=_to_look_at(held),
        held={one.name for one in held if one.mark is not None},
        totals=totals_picture([mark.mark for mark in known], most, counted) if known else None,
        no_mark=", ".join(f"{number} {status}" for status, number in sorted(no_mark.items())),
        solved=exercises_picture({one.name: one.share for one in exercises}, source) if judged else None,
        exercises=exercises,
        misconceptions=_misconceptions(judged, lab),
        lost=sum(_first_failed(grade, name) is not None for grade in judged for name in lab.exercises),
        by_status=_by_status(grades),
        answers=answers,
    )


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


# --- the sections -----------------------------------------------------------------------------------------------


def _numbers(
    grades: Sequence[Mark], judged: Sequence[Mark], known: Sequence[Mark], most: float, held: Sequence[Held]
) -> dict[str, str]:
    totals = pd.Series([mark.mark for mark in known], dtype=float)
    boxes = {"students": str(len(grades)), "judged": str(len(judged))}
    if len(totals):
        boxes |= {"median": f"{totals.median():g} / {most:g}", "mean": f"{totals.mean():.1f} / {most:g}"}
        boxes["full points"] = str(int((totals == most).sum()))
    for what, number in {
        "late": sum(mark.late is not None for mark in grades),
        "changed by hand": sum(bool(mark.overrides) for mark in grades),
    }.items():
        boxes |= {what: str(number)} if number else {}
    boxes["to look at by hand"] = str(len(held))
    return boxes


def _to_look_at(held: Sequence[Held]) -> dict[str, list[tuple[Held, list[str]]]]:
    """Groups by what the matter is, what was flagged first; with each what else there is to say."""
    groups: dict[str, list[tuple[Held, list[str]]]] = {
        words: [] for words in (ODD, *(status.look for status in STATUSES.values()))
    }
    for one in held:
        odd = one.mark is not None and set(one.why) & set(map(line, one.mark.flags))
        group = ODD if odd else one.why[0]
        groups.setdefault(group, []).append((one, [reason for reason in one.why if reason != group]))
    return {words: rows for words, rows in groups.items() if rows}


@dataclass(frozen=True)
class _Exercise:
    name: str
    share: float  # of the students who solved it
    count: int
    stops: list[tuple[str, int]]  # facts at which students stopped, and how many: the three most common


def _exercises(judged: Sequence[Mark], lab: Lab) -> list[_Exercise]:
    """The exercises, hardest first."""
    rows = []
    for name, exercise in lab.exercises.items() if judged else ():
        count = sum(_solved(mark, exercise) for mark in judged)
        stops = Counter(failed.claim for grade in judged if (failed := _first_failed(grade, name)))
        ranked = sorted(stops.items(), key=lambda item: (-item[1], item[0]))[:3]
        rows.append(_Exercise(name, count / len(judged), count, ranked))
    return sorted(rows, key=lambda row: row.share)


def _solved(mark: Mark, exercise: Exercise) -> bool:
    """Whether a student has the star, or all points of an exercise: the instructor's, where there are some."""
    if exercise.star:
        return exercise.solved(mark.findings.get(exercise.name, []))
    return mark.counted.get(exercise.name, 0) >= exercise.points


@dataclass(frozen=True)
class _Misconception:
    exercise: str
    thoughts: tuple[str, ...]
    grades: list[Grade]


def _misconceptions(judged: Sequence[Grade], lab: Lab) -> list[_Misconception]:
    by_name = {grade.student: grade for grade in judged}
    found = likely_misconceptions(judged, lab).items()
    return [_Misconception(exercise, thoughts, [by_name[s] for s in who]) for (exercise, thoughts), who in found]


def _by_status(grades: Sequence[Grade]) -> dict[str, list[Grade]]:
    there = {grade.status for grade in grades}
    order = [*[status for status in STATUSES if status in there], *sorted(there - set(STATUSES))]
    return {status: [grade for grade in grades if grade.status == status] for status in order}


def _answers(grades: Sequence[Grade]) -> dict[str, list[Grade]]:
    """Who answered each question in words."""
    questions = sorted({name for grade in grades for name in grade.free_text})
    return {
        question: [grade for grade in grades if answered(grade.free_text.get(question, ""))] for question in questions
    }


# --- pictures -----------------------------------------------------------------------------------------------------


def totals_picture(totals: Sequence[float], most: float, source: str) -> plots.Picture:
    """How many students have each mark, and the median. Marks between two whole numbers count to the lower one."""
    series = pd.Series(totals, dtype=float)
    whole = bool((series == series.round()).all())
    counts = series.apply(math.floor).value_counts().reindex(range(math.ceil(most) + 1), fill_value=0)
    figure, axes = plots.labelled_axes(2.8, source)
    bars = axes.bar(counts.index, counts.to_numpy(), width=0.82, color=plots.BLUE, edgecolor="white")
    written = [str(int(number)) if number else "" for number in counts]
    for label in axes.bar_label(bars, written, fontsize=9, color=plots.INK, padding=3):
        label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1} if label.get_text() else None)
    axes.axvline(series.median(), color=plots.RED, linestyle="--", linewidth=1.5, label=f"median {series.median():g}")
    axes.set_xticks(range(math.ceil(most) + 1))
    axes.set_xlim(-0.6, math.ceil(most) + 0.6)
    axes.margins(y=0.15)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(
        f"points, of {most:g}" if whole else f"points, of {most:g}, rounded down", fontsize=9, color=plots.INK
    )
    axes.set_ylabel("students", fontsize=9, color=plots.INK)
    figure.legend(loc="outside upper right", fontsize=9, frameon=False)
    quarters = f"{series.quantile(0.25):g} to {series.quantile(0.75):g}"
    summary = (
        f"Median {series.median():g} of {most:g} points, mean {series.mean():.1f}, the middle half from {quarters} "
        f"({source})."
    )
    words = ", ".join(f"{points}: {int(number)}" for points, number in counts.items() if number)
    return plots.Picture(figure, f"Students by total. {words}. {summary}", summary)


def exercises_picture(solved: dict[str, float], source: str) -> plots.Picture:
    """The share of students who solved each exercise, in the order given."""
    figure, axes = plots.labelled_axes(0.9 + 0.36 * len(solved), source)
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
