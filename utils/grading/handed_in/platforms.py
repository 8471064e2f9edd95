"""Whose a file is: names as each platform writes them, read by one platform for the whole export.

What the platforms write, by their sources:
  Moodle      moodle/moodle mod/assign/classes/downloader.php: "NAME_ID_assignsubmission_file/..." or, without folders,
              "NAME_ID_assignsubmission_file_FILE". NAME has no underscore ("_" becomes a space), and is the group's
              for a group assignment ("Default group", and no ID, for all who are in none) and "Participant" where
              marking is blind. "onlinetext" instead of "file" is a text that was typed in.
  Canvas      instructure/canvas-lms lib/content_zipper.rb: "NAME[_LATE]_USER_FILE_FILENAME", where NAME is the sortable
              name (or the group's) in small letters, without spaces and punctuation; "[LATE_]anon_ID_FILE_FILENAME" for
              anonymous marking; "..._text.html" and "..._link.html" for a text and a link that were typed in.
  Gradescope  its "Export submissions": "submission_N/..." and submission_metadata.yml, which says whose each is
  nbgrader    "STUDENT/ASSIGNMENT/NOTEBOOK"
A student chooses the end of a name, and can make it look like another platform's. So all names of an export have to
have one platform's form from their first letter on. Otherwise none is believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import yaml

from utils.grading.roster import Row, display_name, groups_of, is_of_moodle, letters, platform_id, ways_to_write

LEFT_OUT = (".", "__MACOSX", "Thumbs.db", "desktop.ini")  # files that computers add on their own
METADATA = "submission_metadata.yml"
LARGEST_METADATA = 20_000_000  # bytes
TEXT, LINK = "a text", "a link"  # typed in, where a file was asked for
NOT_THIS_ONE = "a group's submission, or a table of another course"
MOODLE = re.compile(r"(?P<name>[^_/]+)(?:_(?P<id>\d+))?_assignsubmission_(?P<kind>[a-z]+)(?:_|$)")
# Canvas has written LATE in small letters, too. No name is in capitals.
# Ruby's [[:word:]] takes the marks on letters, which Python's \w does not: this is all but ASCII's other characters.
WORD = r"[^\x00-/:-@\[-^`{-\x7f]"
CANVAS = re.compile(
    rf"(?P<name>{WORD}*?)"
    r"(?P<late>_LATE|_late)?_(?P<id>\d+)(?:_(?P<file>\d+)_.+|_(?P<typed>link|text)\.html)",
    re.DOTALL,  # a student may put the end of a line into a name
)
PAIR = re.compile(r"(?=(?P<late>_LATE|_late)?_(?P<id>\d+)_(?:\d+_.|(?P<typed>link|text)\.html\Z))", re.DOTALL)
ANONYMOUS = re.compile(
    r"(?P<late>LATE_|late_)?anon_(?P<id>[A-Za-z0-9]+)(?P<late_too>_LATE|_late)?"
    r"(?:_(?P<file>\d+)_.+|_(?P<typed>link|text)\.html)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Named:
    """Whose an entry of an export is, as far as its name, or the platform's own list, says it.

    `id` is the platform's number (or the email, for Gradescope) where it is sure, and `key` tells the student from
    others of the same name in any case. `typed` is "a text" or "a link" instead of a file, and `group` the group that
    handed in for this student. `doubts` are reasons why a person has to say whose it is. `within` is the one folder of
    the entry that counts.
    """

    student: str
    id: str = ""
    late: bool = False
    typed: str = ""
    group: str = ""
    doubts: tuple[str, ...] = ()
    within: str = ""
    key: str = ""


@dataclass(frozen=True)
class Export:
    """An export, read: the platform's name, and the students that each entry belongs to (several for a group)."""

    platform: str
    whose: dict[Path, list[Named]]


def read_names(entries: Sequence[Path], lab: str, known: Sequence[Row] = ()) -> Export:
    """Whose the entries of a folder are. `lab` is what nbgrader calls the assignment, `known` the platform's tables.

    Where no platform's form fits all of the entries, or two do, each is one student's, called as the entry is.
    """
    found = _gradescope(entries)
    if found is not None:
        return Export("Gradescope", found)
    fitting = {platform: named for platform, read in FORMS.items() if (named := read(entries))}
    if len(fitting) == 1:
        (platform, named), *_ = fitting.items()
        return Export(platform, SURE[platform](named, known))
    nbgrader = None if fitting else _nbgrader(entries, lab)
    if nbgrader is not None:
        return Export("nbgrader", {entry: [one] for entry, one in nbgrader.items()})
    return Export("a folder", {entry: [_plain(entry, entries)] for entry in entries})


def shown(entry: Path) -> str:
    """The name of a file as text: not every file's name is."""
    return entry.name.encode(errors="replace").decode()


# --- each platform's form ---------------------------------------------------------------------------------------


def _numbered(student: str, number: str, late: bool = False, typed: str = "") -> Named:
    return Named(student, number, late, typed, key=number)


def _moodle(entries: Sequence[Path]) -> dict[Path, Named] | None:
    found = {}
    for entry in entries:
        match = MOODLE.match(shown(entry))
        if match is None:
            return None
        typed = TEXT if match["kind"] == "onlinetext" else ""
        found[entry] = _numbered(match["name"], match["id"] or "", False, typed)
    return found if _one_name_each(found.values()) else None


def _canvas(entries: Sequence[Path]) -> dict[Path, Named] | None:
    found, sure, files = {}, [], []
    for entry in entries:
        match = CANVAS.fullmatch(shown(entry))
        if match is None or match["name"] != match["name"].lower():
            return None
        found[entry] = _numbered(match["name"] or match["id"], match["id"], bool(match["late"]), _typed(match))
        if len(_readings(shown(entry))) == 1:
            sure.append(found[entry])
            files += [match["file"]] if match["file"] else []
    # A file's number is no other file's. "ann_2026_11_lab01.ipynb" is a date that a person has written.
    return found if _one_name_each(sure) and len(set(files)) == len(files) else None


def _anonymous(entries: Sequence[Path]) -> dict[Path, Named] | None:
    found = {}
    for entry in entries:
        match = ANONYMOUS.fullmatch(shown(entry))
        if match is None:
            return None
        name, late = f"anon_{match['id']}", bool(match["late"] or match["late_too"])
        doubt = "Canvas left the names out (anonymous marking): show the names there, download again, and grade again"
        found[entry] = replace(_numbered(name, name, late, _typed(match)), doubts=(doubt,))
    return found


def _canvas_with_names(entries: Sequence[Path]) -> dict[Path, Named] | None:
    """One student may be called "anon". A whole class is not."""
    return None if _anonymous(entries) else _canvas(entries)


def _typed(match: re.Match) -> str:
    return {"link": LINK, "text": TEXT}.get(match["typed"], "")


FORMS: dict[str, Callable[[Sequence[Path]], dict[Path, Named] | None]] = {
    "Moodle": _moodle,
    "Canvas": _canvas_with_names,
    "Canvas, anonymous": _anonymous,
}


def _one_name_each(found: Sequence[Named]) -> bool:
    names: dict[str, str] = {}
    return all(not one.id or names.setdefault(one.id, one.student) == one.student for one in found)


def _gradescope(entries: Sequence[Path]) -> dict[Path, list[Named]] | None:
    """By the list that Gradescope writes; None where there is none. A student's own files are all in one entry."""
    lists = [entry for entry in entries if entry.name == METADATA and entry.is_file() and not entry.is_symlink()]
    if not lists or lists[0].stat().st_size > LARGEST_METADATA:
        return None
    try:
        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)  # plain text and nothing else, whatever the tags say
        told = yaml.load(lists[0].read_text(encoding="utf-8"), Loader=loader)
        people = {str(name): _submitters(about) for name, about in told.items()}
    except (yaml.YAMLError, ValueError, AttributeError, TypeError, RecursionError):
        return None
    found = {}
    for entry in entries:
        if entry not in lists:
            unlisted = Named(shown(entry), doubts=(f"{METADATA} does not say whose this is",))
            found[entry] = people.get(entry.name) or [unlisted]
    return found


def _submitters(about: dict) -> list[Named]:
    found = []
    for person in about.get(":submitters") or []:
        name, email, sid = (str(person.get(key) or "").strip() for key in (":name", ":email", ":sid"))
        if name or email or sid:
            found.append(_numbered(name or email or sid, email or sid))
    return found


def _nbgrader(entries: Sequence[Path], lab: str) -> dict[Path, Named] | None:
    """A folder for each student that has folders only, one for each assignment."""
    inside = {entry: _visible(entry) if entry.is_dir() and not entry.is_symlink() else [] for entry in entries}
    if not all(found and all(one.is_dir() for one in found) for found in inside.values()):
        return None
    if not any(one.name == lab for found in inside.values() for one in found):
        return None
    return {entry: Named(shown(entry), within=lab) for entry in entries}


def _visible(folder: Path) -> list[Path]:
    return [entry for entry in sorted(folder.iterdir()) if not entry.name.startswith(LEFT_OUT)]


def _plain(entry: Path, entries: Sequence[Path]) -> Named:
    """A student called as the file or the folder is. A name that looks like a platform's is told, and not believed."""
    student = shown(entry) if entry.is_dir() else shown(entry).removesuffix(entry.suffix)
    looks_like = [platform for platform, read in FORMS.items() if read([entry])]
    if not looks_like:
        return Named(student)
    other = next((shown(one) for one in entries if not FORMS[looks_like[0]]([one])), "")
    beside = f", and {other[:60]!r} beside it does not" if other else ""
    doubt = f"the name looks like one that {looks_like[0].split(',')[0]} writes{beside}: whose this is was not guessed"
    return Named(student, doubts=(doubt,))


# --- names and numbers held against the platform's own table ----------------------------------------------------


def _moodle_against(found: dict[Path, Named], known: Sequence[Row]) -> dict[Path, list[Named]]:
    """Numbers of participants stay, and a group is its members, where the table says who is in it.

    A group has a number of its own, which may be some participant's, too.
    """
    rows = {platform_id(row): row for row in known if is_of_moodle(row)}
    others = {platform_id(row): row for row in known if not is_of_moodle(row)}
    groups: dict[str, dict[str, Row]] = {}
    for row in known:
        for group in groups_of(row):
            groups.setdefault(letters(group), {}).setdefault(platform_id(row) or display_name(row), row)
    blind = len(found) > 1 and len({one.student for one in found.values()}) == 1  # all are "Participant"
    sure = {}
    for entry, one in found.items():
        members = groups.get(letters(one.student), {})
        row = rows.get(one.id)
        if members and not any(_is_called(one.student, row) for row in known):
            about = [(display_name(row), platform_id(row)) for row in members.values()]
            sure[entry] = [
                replace(one, student=name, id=number, key=number, group=one.student) for name, number in about
            ]
        elif row is not None and not blind and ways_to_write(row) and not _may_be(one.student, row):
            other = display_name(row)
            doubt = f"Moodle's number {one.id} is {other}'s in the table, and the name here is {one.student!r}"
            sure[entry] = [replace(one, id="", doubts=(f"{doubt}: {NOT_THIS_ONE}",))]
        else:
            sure[entry] = [_not_of(others, one)]
    return _in_one_group_each(sure)


def _in_one_group_each(found: dict[Path, list[Named]]) -> dict[Path, list[Named]]:
    """A member of two groups that handed in has both submissions, and a doubt."""
    groups: dict[tuple[str, str], set[str]] = {}
    for one in (one for several in found.values() for one in several if one.group):
        groups.setdefault((one.student, one.id), set()).add(one.group)

    def told(one: Named) -> Named:
        several = sorted(groups.get((one.student, one.id), ()))
        doubt = f"in more than one group that handed in: {', '.join(several)}"
        return replace(one, doubts=(doubt,)) if len(several) > 1 else one

    return {entry: [told(one) for one in several] for entry, several in found.items()}


def _canvas_against(found: dict[Path, Named], known: Sequence[Row]) -> dict[Path, list[Named]]:
    """A name with more than one pair of numbers can be read in more than one way: the table says which is right."""
    rows = {platform_id(row): row for row in known if platform_id(row) and not is_of_moodle(row)}
    others = {platform_id(row): row for row in known if is_of_moodle(row)}
    sure = {}
    for entry, one in found.items():
        readings = _readings(shown(entry))
        there = [reading for reading in readings if reading.id in rows]
        if len(readings) > 1 and (len(there) > 1 or not rows):
            doubt = "the file's name can be read as that of more than one student"
            one = replace(one, student=shown(entry), id="", key=shown(entry), doubts=(doubt,))
        elif there and not _contains(there[0].student, rows[there[0].id]):
            one = there[0]
            name = display_name(rows[one.id])
            doubt = f"Canvas's number {one.id} is {name}'s in the table, and the name here is {one.student!r}"
            one = replace(one, id="", doubts=(f"{doubt}: {NOT_THIS_ONE}",))
        elif there:
            one = there[0]
        sure[entry] = [_not_of(others, one)]
    return sure


def _not_of(others: dict[str, Row], one: Named) -> Named:
    """Without a number that another platform's table gives to another name."""
    return replace(one, id="") if one.id in others and not _is_called(one.student, others[one.id]) else one


SURE: dict[str, Callable[[dict[Path, Named], Sequence[Row]], dict[Path, list[Named]]]] = {
    "Moodle": _moodle_against,
    "Canvas": _canvas_against,
    "Canvas, anonymous": lambda found, known: {entry: [one] for entry, one in found.items()},
}


def _readings(name: str) -> list[Named]:
    """Every way to read a name of Canvas's, the shortest name of a student first.

    Canvas takes numbers between underscores out of names, but before it takes dots out: "x_4.2_1.1" gets through.
    """
    found = {}
    for pair in PAIR.finditer(name):
        student = name[: pair.start()]
        if re.fullmatch(rf"{WORD}*", student) and student == student.lower():
            one = _numbered(student or pair["id"], pair["id"], bool(pair["late"]), _typed(pair))
            found.setdefault(pair["id"], one)
    return list(found.values())


def _is_called(name: str, row: Row | None) -> bool:
    return row is not None and letters(name) in {letters(way) for way in ways_to_write(row)}


def _contains(name: str, row: Row) -> bool:
    """Whether a name of Canvas's, which has no spaces, is the row's, or has a word of it."""
    if _is_called(name, row):
        return True
    ways = ways_to_write(row)
    words = {letters(word) for way in ways for word in way.split()}
    return not ways or any(len(word) > 1 and word in letters(name) for word in words)


def _may_be(name: str, row: Row) -> bool:
    """Whether two ways to write a name can be one person's: the same letters, or two words that begin alike."""
    if _is_called(name, row):
        return True
    here = [letters(word) for word in name.split()]
    for way in ways_to_write(row):
        there = [letters(word) for word in way.split()]
        few, many = sorted((list(filter(None, here)), list(filter(None, there))), key=len)
        alike = [word for word in few if any(word.startswith(other) or other.startswith(word) for other in many)]
        if len(few) > 1 and alike == few:
            return True
    return False
