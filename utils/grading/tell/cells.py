"""CSV in which nothing is a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from utils.grading.tell.text import clean

STARTS = r"=+\-@＝＋－＠"  # noqa: RUF001 spreadsheets take the wide ones, too
# Where a cell begins: at its start, and behind each semicolon or bar, since some spreadsheets split lines there
# (Excel in German or French at semicolons). Spaces and quotation marks may stand between.
FORMULA = re.compile(rf"(^|[;|])(?=[\s\"]*[{STARTS}])")
MARKED = re.compile(rf"(^|[;|])'(?=[\s\"]*[{STARTS}])")


def cell(value: object) -> str:
    """A cell that no spreadsheet takes for a formula, nor a part of it: what would be one begins with an apostrophe.

    That holds wherever the spreadsheet splits: at commas, semicolons, tabs or bars.
    """
    if isinstance(value, int | float):
        return str(value) if isinstance(value, int) else f"{value:.12g}"
    text = clean(value, 1000).replace("\t", " ").replace("\n", " ")
    return FORMULA.sub(r"\1'", text) if is_formula(text) else text


def plain(text: str) -> str:
    """What `cell` was given, for text that has no apostrophe of its own there."""
    return MARKED.sub(r"\1", text)


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take it, or a part of it, for one. A lone - is what platforms write for nothing."""
    return FORMULA.search(text) is not None and text.strip() != "-"


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as text."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerows([[cell(value) for value in row] for row in [columns, *rows]])
    return file.getvalue()
