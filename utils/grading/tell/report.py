"""What an instructor gets: one page about a class. Totals, exercises, misconceptions, and who needs a person's look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.ticker import MaxNLocator

from utils import plots
from utils.facts import Finding, Lab
from utils.grading.grade import LOOK_AT, STATUSES, Grade
from utils.grading.tell import misconceptions, pages

ODD = "something in the notebook is odd"
UNANSWERED = ("", "YOUR ANSWER HERE", "*Double-click, and write here.*")


def class_page(grades: Sequence[Grade], lab: Lab, warning: str = "") -> str:
    """The report of a class as one HTML page, to lie beside the folder feedback/. Same grades, same bytes.

    `warning` is about the whole run, and stands first.
    """
    grades = sorted(grades, key=lambda grade: grade.student)
    judged = [grade for grade in grades if grade.judged]
    source = f"{lab.name}, {len(judged)} submission{'' if len(judged) == 1 else 's'} judged"
    exercises, answers = _exercises(judged, lab), _answers(grades)
    not_judged = Counter(grade.status for grade in grades if not grade.judged)
    return pages.page(
        "class.html",
        grades=grades,
        judged=judged,
        lab=lab,
        warning=warning,
        numbers=_numbers(grades, judged, lab),
        left_out=[section for section, rows in {"exercises": judged, "answers": answers}.items() if not rows],
        to_look_at=_to_look_at(grades),
        totals=totals_picture([grade.total for grade in judged], lab.points, source) if judged else None,
        not_judged=", ".join(f"{number} {status}" for status, number in sorted(not_judged.items())),
        solved=exercises_picture({one.name: one.share for one in exercises}, source) if judged else None,
        exercises=exercises,
        misconceptions=_misconceptions(judged, lab),
        lost=sum(_first_failed(grade, name) is not None for grade in judged for name in lab.exercises),
        by_status=_by_status(grades),
        statuses=STATUSES,
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


def _numbers(grades: Sequence[Grade], judged: Sequence[Grade], lab: Lab) -> dict[str, str]:
    totals = pd.Series([grade.total for grade in judged], dtype=float)
    boxes = {"students": str(len(grades)), "judged": str(len(judged))}
    if len(totals):
        most = lab.points
        boxes |= {"median": f"{totals.median():g} / {most}", "mean": f"{totals.mean():.1f} / {most}"}
        boxes["full points"] = str(int((totals == most).sum()))
    boxes["to look at by hand"] = str(sum(bool(grade.reasons_to_look) for grade in grades))
    return boxes


def _to_look_at(grades: Sequence[Grade]) -> dict[str, list[tuple[Grade, list[str]]]]:
    """Groups by what the matter is, what was flagged first; with each grade what else there is to say."""
    groups: dict[str, list[tuple[Grade, list[str]]]] = {words: [] for words in (ODD, *LOOK_AT.values())}
    for grade in grades:
        reasons = grade.reasons_to_look
        if reasons:
            group = ODD if grade.flags else reasons[0]
            groups.setdefault(group, []).append((grade, [reason for reason in reasons if reason != group]))
    return {words: rows for words, rows in groups.items() if rows}


@dataclass(frozen=True)
class _Exercise:
    name: str
    share: float  # of the students who solved it
    count: int
    stops: list[tuple[str, int]]  # facts at which students stopped, and how many: the three most common


def _exercises(judged: Sequence[Grade], lab: Lab) -> list[_Exercise]:
    """The exercises, hardest first."""
    rows = []
    for name in lab.exercises if judged else ():
        count = sum(grade.points.get(name, 0) > 0 for grade in judged)
        stops = Counter(failed.claim for grade in judged if (failed := _first_failed(grade, name)))
        ranked = sorted(stops.items(), key=lambda item: (-item[1], item[0]))[:3]
        rows.append(_Exercise(name, count / len(judged), count, ranked))
    return sorted(rows, key=lambda row: row.share)


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
        question: [g for g in grades if str(g.free_text.get(question, "")).strip() not in UNANSWERED]
        for question in questions
    }


# --- pictures -----------------------------------------------------------------------------------------------------


def totals_picture(totals: Sequence[int], most: int, source: str) -> plots.Picture:
    """How many students have each total, and the median."""
    series = pd.Series(totals, dtype=float)
    counts = series.value_counts().reindex(range(most + 1), fill_value=0)
    figure, axes = plots.labelled_axes(2.8, source)
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
