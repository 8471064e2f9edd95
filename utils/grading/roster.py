"""Who is in the class: the tables that learning platforms export, lists of names, and whose row is whose.

What the platforms write, by their source as it is now:
  Moodle, gradebook   moodle/moodle grade/export/txt/grade_export_txt.php: "First name", "Last name" (once "Surname"),
                      "ID number", Institution, Department, "Email address", the grades, "Last downloaded ..."
  Moodle, worksheet   moodle/moodle mod/assign/gradingtable.php: Identifier ("Participant" and the number that is in the
                      file names), "Full name" unless marking is blind, ids that the site shows, Status, "Group"
                      where groups hand in, Grade, ...
  Canvas              instructure/canvas-lms lib/gradebook_exporter.rb: Student, or LastName and FirstName, then ID,
                      "SIS User ID", "SIS Login ID", Section, the assignments. Rows of no student: one about
                      posting that begins with empty cells, "    Points Possible", and "Student, Test" at the end
  Gradescope          its roster: "First Name", "Last Name" (or Name), SID, Email, Role: the staff are in it, too
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from utils.common.errors import Problem

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, str]  # one row of a table: what stands under each title
# Titles, in small letters.
FIRST_NAMES, LAST_NAMES = ("first name", "firstname"), ("last name", "lastname", "surname")
FULL_NAMES = ("student", "full name", "name")
EMAILS = ("email address", "email", "e-mail", "sis login id", "username")
IDS = ("sis user id", "sis login id", "sid", "id number", *EMAILS)
NUMBERS = ("id", "identifier")
GROUPS = ("group", "groups")
TITLES = {*FIRST_NAMES, *LAST_NAMES, *FULL_NAMES, *IDS, *NUMBERS}
STAFF = ("instructor", "ta", "reader")


class Person(Protocol):
    """Somebody who handed in: a name, and the platform's number where the name of the file told it."""

    @property
    def student(self) -> str: ...
    @property
    def id(self) -> str: ...


# --- reading ----------------------------------------------------------------------------------------------------


def read_gradebook(path: Path) -> pd.DataFrame:
    """A platform's own CSV (gradebook, roster, grading worksheet), as text.

    Raises Problem for what is none, and for a table that does not say whose its rows are.
    """
    try:
        text = _text(path)
        titles = next(csv.reader(io.StringIO(text), delimiter=_separator(text)), [])
        if TITLES.isdisjoint(title.strip().casefold() for title in titles):
            known = "such as Student, ID, Identifier or Email address"
            raise Problem(
                f"{path} is not a gradebook: its first line has no title that tells a student, {known}, in English"
            )
        return _table(text)
    except (OSError, ValueError, csv.Error) as error:
        raise Problem(f"{path} cannot be read as a CSV of a gradebook: {_reason(error)}") from None


def read_roster(path: Path) -> list[Row]:
    """Everybody in a class: from a platform's CSV, any other with titles, or names, one a line or first in a CSV.

    Who is in it twice, word for word, is one. Raises Problem for what cannot be read.
    """
    try:
        text = _text(path)
        rows = [list(map(str.strip, row)) for row in csv.reader(io.StringIO(text), delimiter=_separator(text))]
        rows = [row for row in rows if any(row)]
        titled = bool(rows) and _are_titles(rows[0])
        if titled and len(rows[0]) > 1:
            return students_in(_table(text).drop_duplicates())
        a_line = bool(rows) and len(rows[0]) == 1  # "Lee, Ann" in one column is one name
        names = [", ".join(row) if a_line else row[0] for row in rows[titled:]]
        return [{"Name": name} for name in dict.fromkeys(names) if name]
    except (OSError, ValueError, csv.Error) as error:
        raise Problem(f"{path} cannot be read as a list of students: {_reason(error)}") from None


def students_in(table: pd.DataFrame) -> list[Row]:
    """The rows of a table that are a student's."""
    return [row for row in table.to_dict("records") if _is_student(row)]


def _text(path: Path) -> str:
    """The text of a file. Raises Problem for a file that is missing or is none of text, and OSError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise Problem(f"{path} does not exist") from None
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise Problem(f"{path} is not a CSV in UTF-8: give what your platform exports, or save it as 'CSV UTF-8'")
    return text


def _table(text: str) -> pd.DataFrame:
    import pandas as pd  # here: it takes a second, and a grader without such a table does not need it

    table = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False, sep=_separator(text), index_col=False)
    table.columns = [str(column).strip() for column in table.columns]
    return table


def _separator(text: str) -> str:
    return max(",;\t", key=text.split("\n", 1)[0].count)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _are_titles(cells: Sequence[str]) -> bool:
    known = [cell.casefold() in TITLES for cell in cells]
    return known[0] or sum(known) > 1


def _is_student(row: Row) -> bool:
    """Not what Canvas says about points and posting, not the student that it makes up for testing, not the staff."""
    name = full_name(row)
    other = name.startswith("Points Possible") or name in ("Student, Test", "Test Student")
    return bool(name or platform_id(row) or ids_of(row)) and not other and first(row, ["role"]).casefold() not in STAFF


# --- a row ------------------------------------------------------------------------------------------------------


def first(row: Row, titles: Iterable[str]) -> str:
    """What stands under the first of these titles (in small letters) that has something under it."""
    found = {title.casefold(): value.strip() for title, value in row.items()}
    return next((found[title] for title in titles if found.get(title)), "")


def full_name(row: Row) -> str:
    """The person's name as the table has it: "Ann Lee", or Canvas's "Lee, Ann"."""
    return f"{first(row, FIRST_NAMES)} {first(row, LAST_NAMES)}".strip() or first(row, FULL_NAMES)


def platform_id(row: Row) -> str:
    """The platform's own number of a student, which is in the names of the files that it exports."""
    identifier = re.search(r"\d+$", first(row, ["identifier"]))
    of_canvas = "Student" in row or "LastName" in row
    return identifier[0] if identifier else first(row, ["id"]) if of_canvas else ""


def ids_of(row: Row) -> set[str]:
    """Every other id of a student, and the part of an email before the @."""
    found = {_plain(first(row, [title])) for title in IDS}
    return (found | {value.split("@")[0] for value in found if "@" in value}) - {""}


def display_name(row: Row) -> str:
    """What to call the student of this row: the name, or what there is instead of one."""
    return full_name(row) or first(row, ["identifier", *IDS, *NUMBERS])


def ways_to_write(row: Row) -> set[str]:
    """The ways to write this person's name, with either part first."""
    name = full_name(row)
    ways = {name}
    if "," in name:
        last, given = name.split(",", 1)
        ways |= {f"{given} {last}", f"{last} {given}"}
    else:
        words = name.split()
        ways |= {" ".join([*words[cut:], *words[:cut]]) for cut in range(1, len(words))}
    return {_plain(way) for way in ways} - {""}


def is_of_moodle(row: Row) -> bool:
    """Whether a row's number is one of Moodle's participants."""
    return bool(first(row, ["identifier"]))


def groups_of(row: Row) -> set[str]:
    """The groups that a student is in: of Moodle's worksheet ("Group") or its list of participants ("Groups")."""
    groups = first(row, GROUPS)
    return {part.strip() for part in (groups, *re.split("[,;]", groups))} - {""}


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("_", " ").split())


def letters(text: str) -> str:
    """Only the letters and digits, small and without accents."""
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if c.isalnum())


# --- whose row is whose -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Match:
    """Whose row is whose. Rows are told by their place."""

    rows: dict[str, int]  # student -> row, in the order of the rows
    doubts: dict[str, set[int]]  # student without a row -> the rows that it might be: none, several, or another's too
    free: list[int]  # rows of no student


# How a person is recognised, the surest way first: what of the person has to be among what of the row.
WAYS: list[tuple[Callable[[Person], str], Callable[[Row], set[str]]]] = [
    (lambda person: person.id, lambda row: {platform_id(row)}),
    (lambda person: _plain(person.id) if "@" in person.id else "", ids_of),
    (lambda person: _plain(person.student), ids_of),
    (lambda person: _plain(person.student), ways_to_write),
    (lambda person: letters(person.student), lambda row: set(map(letters, ways_to_write(row)))),
]


def found_in(people: Sequence[Person], rows: Sequence[Row]) -> int:
    """How many of these have a row, or several that might be theirs."""
    matched = match(people, rows)
    return len(matched.rows) + sum(bool(places) for places in matched.doubts.values())


def match(people: Iterable[Person], rows: Sequence[Row]) -> Match:
    """Give each person a row: by the platform's number, then by an id, by the name, by the letters of the name.

    A row or a person with two possibilities gets none: it is told, not guessed.
    """
    left, free = {person.student: person for person in people}, dict(enumerate(rows))
    found: dict[int, str] = {}
    doubts: dict[str, set[int]] = {student: set() for student in left}
    for of_person, of_row in WAYS:
        wanted = _wanted(left.values(), free, of_person, of_row)
        claimed = Counter(place for places in wanted.values() for place in places)
        for student, places in wanted.items():
            if len(places) == 1 and claimed[min(places)] == 1:
                place = places.pop()
                found[place] = student
                del free[place], left[student]
            else:
                doubts[student] |= places
    return Match(
        {found[place]: place for place in sorted(found)}, {student: doubts[student] for student in left}, list(free)
    )


def _wanted(
    people: Iterable[Person], rows: dict[int, Row], of_person: Callable[[Person], str], of_row: Callable[[Row], set]
) -> dict[str, set[int]]:
    """The rows that each person might be, recognised in one way."""
    by_key: dict[str, set[int]] = {}
    for place, row in rows.items():
        for key in of_row(row) - {""}:
            by_key.setdefault(key, set()).add(place)
    return {person.student: set(by_key.get(of_person(person), ())) for person in people}
