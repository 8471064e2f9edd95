"""CSV in which nothing is a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

from utils.grading.tell.text import clean

FORMULA = re.compile(r"\s*[=+\-@＝＋－＠]")  # noqa: RUF001 spreadsheets take the wide ones, too


def cell(value: object) -> str:
    """A cell that no spreadsheet takes for a formula: text that would be one begins with an apostrophe."""
    if isinstance(value, int | float):
        return str(value)
    text = clean(value, 1000).replace("\t", " ").replace("\n", " ")
    return f"'{text}" if is_formula(text) else text


def plain(text: str) -> str:
    """What `cell` was given, for text that has no apostrophe of its own there."""
    return text[1:] if text.startswith("'") and is_formula(text[1:]) else text


def is_formula(text: str) -> bool:
    """Whether a spreadsheet would take it for one. A lone - is what platforms write for nothing."""
    return FORMULA.match(text) is not None and text.strip() != "-"


def as_csv(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table as text."""
    file = io.StringIO()
    table = csv.writer(file, lineterminator="\n")
    table.writerows([[cell(value) for value in row] for row in [columns, *rows]])
    return file.getvalue()
