"""The contents of a student's files, read by a process of its own within bounds (reader.py)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from utils.grading.handed_in import reader

LONGEST_ANSWER = 4000  # characters of an answer in words that are kept
MOST_ANSWERS = 10
LONGEST_CODE, MOST_CODE = 20_000, 20  # characters of an answer in code that are kept, and how many
OTHER_CELLS = "other cells"  # the name of all code that is no answer
PATIENCE = 120  # seconds, of a process that may use reader.SECONDS: the machine may be busy


class NotRead(Exception):
    """A submission could not be read for want of time or memory on this machine. The message says why."""


@dataclass(frozen=True)
class Cell:
    """A cell: its type, its name for nbgrader, whether it is an answer and whether it is marked, its text."""

    kind: str
    name: str
    answer: bool
    marked: bool
    source: str
    ran: bool


@dataclass(frozen=True)
class Document:
    """A file that was handed in: a notebook with its cells, or `why` it is none.

    `meant` is whether it is called as a notebook is, so that a person expects one.
    """

    name: str
    cells: tuple[Cell, ...] = ()
    why: str = ""
    meant: bool = True

    @property
    def code(self) -> list[str]:
        """The code cells, in order."""
        return [cell.source for cell in self.cells if cell.kind == "code"]

    @property
    def words(self) -> dict[str, str]:
        """The answers in words, by the name of their cell: those that a person marks."""
        found = {
            cell.name: cell.source[:LONGEST_ANSWER]
            for cell in self.cells
            if cell.kind == "markdown" and cell.answer and cell.marked
        }
        return dict(list(found.items())[:MOST_ANSWERS])

    @property
    def answers(self) -> dict[str, str]:
        """The code of each answer, by the name of its cell, and that of all other cells as one: to be compared."""
        found: dict[str, str] = {}
        for cell in self.cells:
            if cell.kind == "code":
                name = cell.name if cell.answer else OTHER_CELLS
                found[name] = f"{found[name]}\n{cell.source}" if name in found else cell.source
        return {name: source[:LONGEST_CODE] for name, source in list(found.items())[:MOST_CODE]}

    @property
    def ran(self) -> bool:
        """Whether any cell has been run, as far as the file tells."""
        return any(cell.ran for cell in self.cells)


def read_documents(files: Sequence[Path]) -> list[Document]:
    """Every notebook in these files, also in zips, and every file that is none, with the reason.

    Raises NotRead where the machine has no time or memory for it, and never because of the files themselves. The
    order is that of the names: notebooks first, then zips, then everything else.
    """
    wanted = sorted(files, key=lambda file: (_rank(file), file.as_posix().encode(errors="surrogateescape")))
    request = json.dumps([[str(file.absolute()), name] for file, name in zip(wanted, _names(wanted), strict=True)])
    command = [sys.executable, "-I", "-S", reader.__file__]
    try:
        done = subprocess.run(command, input=f"{request}\n".encode(), capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise NotRead(f"reading it did not end within {PATIENCE} s: is the machine busy?") from None
    if done.returncode == -signal.SIGKILL:
        raise NotRead("the process that reads it was killed: is the memory full?")
    found = [_document(json.loads(line)) for line in done.stdout.splitlines(keepends=True) if line.endswith(b"\n")]
    if done.returncode:
        bounds = f"{reader.SECONDS} s or {reader.MEMORY / 1e9:g} GB"
        left = ", ".join(name for name in _names(wanted) if name not in {one.name for one in found})
        found.append(Document(left[:200], why=f"reading it takes more than {bounds}: save it without outputs"))
    return found


def _document(told: dict) -> Document:
    cells = tuple(Cell(**cell) for cell in told.get("cells", ()))
    return Document(told["name"], cells, told.get("why", ""), told["meant"])


def _rank(file: Path) -> int:
    return 0 if ".ipynb" in file.name.lower() else 1 if file.suffix.lower() == ".zip" else 2


def _names(files: Sequence[Path]) -> list[str]:
    """What to call the files, as text: with the folder where two have one name."""
    names = [file.name for file in files]
    several = {name for name in names if names.count(name) > 1}
    shown = [f"{file.parent.name}/{file.name}" if file.name in several else file.name for file in files]
    return [name.encode(errors="replace").decode()[:150] for name in shown]
