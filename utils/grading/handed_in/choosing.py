"""Which of a student's notebooks are judged: all of this lab's, and never one of them in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from utils.common.files import ROOT
from utils.grading.handed_in.reading import Document

MOST_JUDGED = 4  # notebooks of one student: each takes as long as a submission
LESSON = "a lesson"
SHORTEST = 20  # characters of a cell that tells which lab it is of


@dataclass(frozen=True)
class Chosen:
    """The notebooks to judge; where there is none, a status of `utils.grading.grade` and a note.

    `flags` are reasons for a person to look.
    """

    notebooks: list[Document] = field(default_factory=list)
    status: str = ""
    note: str = ""
    flags: list[str] = field(default_factory=list)


def choose(found: Sequence[Document], lab: str) -> Chosen:
    """The notebooks of `lab` among a student's files: each that differs from the others, four at most.

    Another lab's notebook and an untouched one are not judged; they are told where there is nothing else. A notebook
    without a cell of any lab is judged where it stands alone, or where it defines a function that this lab asks for.
    """
    notebooks = [one for one in found if not one.why]
    unread = [f"{one.name}: {one.why}" for one in found if one.why and one.meant]
    if not notebooks:
        return _none(found)
    written = [one for one in notebooks if any(cell.strip() for cell in one.code)]
    if not written:
        return Chosen(status="missing", note="the notebook has no code in it", flags=unread)
    labs = [_lab_of(one, lab) for one in written]
    mine = [one for one, other in zip(written, labs, strict=True) if other == lab]
    unknown = [one for one, other in zip(written, labs, strict=True) if not other]
    touched = _different([one for one in mine if not _is_untouched(one, lab)])
    if touched:
        touched += [one for one in _different(unknown) if _answers(one, lab)]
    touched = touched or _different(unknown)
    if touched:
        flags = [f"one more file cannot be read. {reason}" for reason in unread]
        if len(touched) > MOST_JUDGED:
            flags.append(f"{len(touched)} different notebooks: {MOST_JUDGED} of them were judged")
        return Chosen(touched[:MOST_JUDGED], flags=flags)
    if mine:
        return Chosen(status="untouched", note=f"{mine[0].name} is {lab}'s notebook as it was released", flags=unread)
    others = ", ".join(sorted(set(labs)))
    note = f"{written[0].name} is the notebook of {others}, and not of {lab}: the one of {lab} is needed"
    return Chosen(status="another-lab", note=note, flags=unread)


def _none(found: Sequence[Document]) -> Chosen:
    """Why there is no notebook: of those that are called one if there are any."""
    whys = [one for one in found if one.meant] or list(found)
    note = found[0].why if len(found) == 1 else "; ".join(f"{one.name}: {one.why}" for one in whys[:3])
    if len(whys) > 3:
        note += f"; and {len(whys) - 3} more"
    return Chosen(status="not-a-notebook" if found else "missing", note=note or "nothing was handed in")


def _different(notebooks: Sequence[Document]) -> list[Document]:
    """One of each, where code and answers in words are the same."""
    found: dict[tuple, Document] = {}
    for one in notebooks:
        found.setdefault((tuple(one.code), tuple(one.words.items())), one)
    return list(found.values())


# --- held against the labs as they were released -------------------------------------------------------------------


@dataclass(frozen=True)
class _Released:
    """What a lab is recognised by."""

    sources: frozenset[str]  # of all its cells
    own: frozenset[str]  # of those that are in no other lab
    asked: frozenset[str]  # the functions and classes that it asks for


def _lab_of(notebook: Document, wanted: str) -> str:
    """The lab that a notebook is of, by the names of its cells and by their text, or a lesson; nothing otherwise.

    Where several labs are in one notebook it is the `wanted` one, if that has a fair share.
    """
    released = _released()
    names = re.compile(r"(lab\d+)-")
    counts = dict.fromkeys(released, 0)
    for cell in notebook.cells:
        named = names.match(cell.name)
        if named and named[1] in counts:
            counts[named[1]] += 1
        text = _plain(cell.source)
        for lab, about in released.items():
            counts[lab] += text in about.own
    most = max(counts.values(), default=0)
    if most and 2 * counts.get(wanted, 0) >= most:
        return wanted
    if most:
        return next(lab for lab, count in counts.items() if count == most)
    code = [text for cell in notebook.code if len(text := _plain(cell)) >= SHORTEST]
    return LESSON if sum(text in _lessons() for text in code) > len(code) / 2 else ""


def _is_untouched(notebook: Document, lab: str) -> bool:
    """Whether every cell of code, and every answer, is as the lab gave it."""
    released = _released()[lab].sources
    own = [cell for cell in notebook.cells if cell.kind == "code" or cell.answer]
    return all(not cell.source.strip() or _plain(cell.source) in released for cell in own)


def _answers(notebook: Document, lab: str) -> bool:
    """Whether a notebook of no lab defines a function or class that this one asks for."""
    asked = _released()[lab].asked if lab in _released() else frozenset()
    return any(name in asked for code in notebook.code for name in _DEFINED.findall(code))


_DEFINED = re.compile(r"^(?:def|class)[ \t]+(\w+)", re.MULTILINE)


def _plain(source: str) -> str:
    """A cell's text without the ends of lines and the empty lines around it, which editors change on their own."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


@cache
def _lessons() -> frozenset[str]:
    """The code of the course's lessons, which students hand in where they hand in everything."""
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    cells = [cell for path in paths for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]]
    return frozenset(_plain("".join(cell["source"])) for cell in cells if cell["cell_type"] == "code")


@cache
def _released() -> dict[str, _Released]:
    """The labs as students get them."""
    cells = {}
    for path in sorted((ROOT / "labs").glob("lab*/lab*.ipynb")):
        cells[path.parent.name] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    sources = {lab: {_plain("".join(cell["source"])) for cell in found} for lab, found in cells.items()}
    asked = {lab: {name for cell in found for name in _asked(cell)} for lab, found in cells.items()}
    return {
        lab: _Released(
            frozenset(found),
            frozenset(
                text
                for text in found
                if len(text) >= SHORTEST and not any(text in sources[other] for other in sources if other != lab)
            ),
            frozenset(asked[lab]),
        )
        for lab, found in sources.items()
    }


def _asked(cell: dict) -> list[str]:
    answer = cell["cell_type"] == "code" and cell["metadata"].get("nbgrader", {}).get("solution")
    return _DEFINED.findall("".join(cell["source"])) if answer else []
