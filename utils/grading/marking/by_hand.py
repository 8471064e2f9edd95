"""Tables that an instructor fills in, in an editor or a spreadsheet: read strictly, each fault told with its line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from utils.common.errors import Problem
from utils.grading.roster import Row as TableRow
from utils.grading.roster import display_name, ids_of, match, platform_id
from utils.grading.run.submissions import Submission
from utils.grading.tell.cells import cell, plain

NUMBER = re.compile(r"\d{1,6}(?:[.,]\d{1,6})?")
MOST_TOLD = 5  # faults at once
Row = tuple[str, dict[str, str]]  # where it stands, and what stands under each title


class Faults:
    """Faults of several rows, to be told at once."""

    def __init__(self):
        self._found: list[str] = []

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep the Problem that is raised inside, and go on behind it."""
        try:
            yield
        except Problem as fault:
            self._found.append(str(fault))

    def tell(self) -> None:
        """Raise one Problem with the first faults, and how many more there are. Nothing where there is none."""
        if self._found:
            more = len(self._found) - MOST_TOLD
            raise Problem("; ".join(self._found[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else ""))


def rows_of(path: Path, titles: Collection[str], least: Collection[str], faults: Faults) -> list[Row]:
    """The rows of a CSV with these titles, as a spreadsheet may have written it: none where there is no such file.

    Separators are commas, semicolons or tabs. Titles that are not in `least` may be left out. A row that is too long
    goes to `faults`. Raises Problem for a file that cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return []
    except UnicodeDecodeError:
        raise Problem(f"{path} is not in UTF-8: save it as 'CSV UTF-8'") from None
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from None
    separator = max(",;\t", key=text.split("\n", 1)[0].count)
    found, head = [], []
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for cells in table:
            row = [one.strip() for one in cells]
            if not any(row):
                continue
            if not head:
                head = _titles(path, row, titles, least)
            elif any(row[len(head) :]):
                where = f"{path}, line {table.line_num}"
                with faults.kept():
                    raise Problem(f"{where}: more cells than titles: put quotation marks around text")
            else:
                values = dict.fromkeys(titles, "") | dict(zip(head, map(plain, row), strict=False))
                found.append((f"{path}, line {table.line_num}", values))
    except csv.Error as error:
        raise Problem(f"{path}, line {table.line_num}: {error}") from None
    return found


def _titles(path: Path, row: list[str], titles: Collection[str], least: Collection[str]) -> list[str]:
    head = [one.casefold() for one in row]
    unknown = [one for one in head if one not in titles]
    lacking = [one for one in least if one not in head]
    if unknown or lacking or len(set(head)) < len(head):
        raise Problem(f"{path}: its first line should be {','.join(titles)}, and it is {','.join(row)[:200]}")
    return head


def points_in(where: str, text: str, most: float) -> float:
    """Points that somebody wrote, with a point or a comma. Raises Problem for what is none from 0 to `most`."""
    if not NUMBER.fullmatch(text):
        raise Problem(f"{where}: points are a number, and {text[:40]!r} is none")
    number = float(text.replace(",", "."))
    if number > most:
        raise Problem(f"{where}: {number:g} points, and {most:g} is the most")
    return int(number) if number == int(number) else number


class Students:
    """The students of a class, found by what a table calls them.

    That is the name in grades.csv or the platform's id, and the name and the ids in the row of a platform's table that
    is surely the student's.
    """

    def __init__(self, submissions: Sequence[Submission], tables: Iterable[Sequence[TableRow]] = ()):
        self._own: dict[str, set[str]] = {}
        self._in_tables: dict[str, set[str]] = {}
        for one in submissions:
            _add(self._own, one.student, {one.student, plain(cell(one.student)), one.id})
        for rows in tables:
            for student, place in match(submissions, rows).rows.items():
                row = rows[place]
                _add(self._in_tables, student, {display_name(row), platform_id(row), *ids_of(row)})

    def find(self, where: str, name: str) -> str:
        """The student called this. Raises Problem where there is none, or two."""
        key = _key(name)
        # A student's own name goes before what a table calls another; `ids_of` has small letters.
        found = self._own.get(key) or self._in_tables.get(key) or self._in_tables.get(key.casefold(), set())
        if not found:
            raise Problem(f"{where}: no student in this class is called {name[:80]!r}: write the name as in grades.csv")
        if len(found) > 1:
            raise Problem(f"{where}: {name[:80]!r} is {len(found)} students: write the name as in grades.csv")
        return next(iter(found))


def _add(to: dict[str, set[str]], student: str, names: Iterable[str]) -> None:
    for key in filter(None, map(_key, names)):
        to.setdefault(key, set()).add(student)


def _key(name: str) -> str:
    return " ".join(name.split())
