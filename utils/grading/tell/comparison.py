"""Answers that are alike, told: a table, and a page with both answers side by side."""

from __future__ import annotations

from pathlib import Path

from utils.common.files import write_whole
from utils.exercises.facts import Lab
from utils.grading.compare import COMMON, Comparison
from utils.grading.tell import pages
from utils.grading.tell.cells import as_csv

SHOWN = 100  # pairs on the page


def write_comparison(found: Comparison, lab: Lab, out: Path) -> tuple[Path, Path]:
    """Write compare.csv and compare.html into a folder that `course grade` has written."""
    table, page = out / "compare.csv", out / "compare.html"
    rows = [[one.student, one.other, one.exercise, one.alike, one.rare, round(one.share, 2)] for one in found.pairs]
    write_whole(table, as_csv(["student", "other", "exercise", "alike", "rare_pieces", "share"], rows))
    write_whole(page, pages.render("compare.html", found=found, lab=lab, shown=SHOWN, common=COMMON))
    return table, page
