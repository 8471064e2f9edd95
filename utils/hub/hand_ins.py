"""What was handed in: a notebook of each student and lab, and a receipt that no student can write.

A later one replaces an earlier one, which is kept beside the receipts. The time and the SHA-256 are this machine's.
What `check` said is what the student's kernel says it said: shown, and never a mark.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import write_whole
from utils.hub.class_folder import LOGIN, ClassFolder

LARGEST = 50 * 2**20  # bytes of a notebook, as `course grade` reads them
LAB = re.compile(r"lab\d\d")
MOST_SAID = 40  # exercises that a statement may have, and characters of each
MOST_KEPT = 30  # notebooks of a student and a lab that were replaced; the newest are kept


@dataclass(frozen=True)
class Receipt:
    """What a student is told of a hand-in. `late` is empty without a deadline, or in time."""

    student: str
    lab: str
    file: str
    at: str  # UTC, ISO 8601
    sha256: str
    size: int  # bytes
    late: str = ""
    replaces: str = ""  # when the one before it came
    said: dict[str, str] = field(default_factory=dict)  # by exercise, what `check` said, by the student's own kernel


def store(of: ClassFolder, student: str, lab: str, file: str, notebook: bytes, said: object = None) -> Receipt:
    """Keep a notebook. Raises Problem, and keeps what was there, for what cannot be handed in."""
    if not LOGIN.fullmatch(student):
        raise Problem(f"{student!r} is no student's login")
    if not LAB.fullmatch(lab) or not (of.course / "labs" / lab).is_dir():
        raise Problem(f"there is no lab {lab!r} in this course: write it as lab01")
    if len(notebook) > LARGEST:
        raise Problem(f"the notebook has {len(notebook) / 2**20:.0f} MB, and 50 are taken: clear large outputs")
    if not _is_notebook(notebook):
        raise Problem("this is not a notebook: hand in the .ipynb file of the lab")
    name = f"{lab}.ipynb" if not re.fullmatch(r"[\w][\w .-]{0,80}\.ipynb", file) else file
    earlier = receipts(of, student, lab)
    now = datetime.now(UTC)
    receipt = Receipt(
        student,
        lab,
        name,
        now.isoformat(timespec="seconds"),
        hashlib.sha256(notebook).hexdigest(),
        len(notebook),
        late=_late(of, lab, now),
        replaces=earlier[-1].at if earlier else "",
        said=_statement(said),
    )
    place, kept = of.handed_in / student / lab, of.receipts / student
    for folder in (place, kept / lab):
        folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    # First the copy that stays, then its receipt, then the one that is graded: a stop between them loses nothing.
    _write(kept / lab / f"{now:%Y%m%dT%H%M%S.%f}.ipynb", notebook)
    with (kept / f"{lab}.jsonl").open("a", encoding="utf-8") as lines:
        lines.write(f"\n{json.dumps(asdict(receipt))}\n")  # also after a line that a full disk has cut off
        lines.flush()
        os.fsync(lines.fileno())
    _write(place / name, notebook)
    for other in place.iterdir():
        if other.name != name:
            other.unlink()
    for old in sorted((kept / lab).iterdir())[:-MOST_KEPT]:
        old.unlink()
    return receipt


def receipts(of: ClassFolder, student: str, lab: str) -> list[Receipt]:
    """All receipts of a student and a lab, the oldest first. A line that a full disk cut off is left out."""
    try:
        lines = (of.receipts / student / f"{lab}.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(Receipt(**json.loads(line)))
        except (ValueError, TypeError):
            continue
    return found


def last_receipts(of: ClassFolder, student: str) -> dict[str, Receipt]:
    """The last receipt of each lab that a student has handed in."""
    folder = of.receipts / student
    labs = sorted(path.stem for path in folder.glob("*.jsonl")) if folder.is_dir() else []
    return {lab: found[-1] for lab in labs if (found := receipts(of, student, lab))}


def write_roster(of: ClassFolder, lab: str, out: Path) -> None:
    """Write a table of the class with the times of its hand-ins, as `course grade --students` reads it."""
    rows = ["Student,Submission time"]
    for student in of.students:
        found = receipts(of, student, lab)
        rows.append(f"{student},{found[-1].at if found else ''}")
    write_whole(out, "\n".join(rows) + "\n")


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all, and on the disk: the name of the file beside it hides it from the grader."""
    beside = path.with_name(f".{path.name}.part")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def _is_notebook(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data).get("cells"), list)
    except (ValueError, AttributeError, RecursionError):
        return False


def _late(of: ClassFolder, lab: str, now: datetime) -> str:
    deadline = of.deadlines.get(lab)
    if deadline is None or now <= deadline:
        return ""
    minutes = int((now - deadline).total_seconds() // 60) + 1
    return f"{minutes // 60} h {minutes % 60} min after the deadline"


def _statement(said: object) -> dict[str, str]:
    """A student's kernel may send anything."""
    if not isinstance(said, dict):
        return {}
    return {str(name)[:MOST_SAID]: str(word)[:MOST_SAID] for name, word in list(said.items())[:MOST_SAID]}
