"""Where the course is, and writing files so that they are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def sources(course: Path = ROOT) -> tuple[Path, Path]:
    """The folders of a course's two packages, `utils` and `simgpu`."""
    return course, course / "utils" / "simgpu" / "src"


def python_path(more: Iterable[str] = (), course: Path = ROOT) -> str:
    """PYTHONPATH for a program that imports this copy of the course, and then what lies in `more`."""
    own = [str(folder) for folder in sources(course)]
    return os.pathsep.join([*own, *(path for path in more if path and path not in own)])


def write_whole(path: str | os.PathLike, text: str) -> None:
    """Write text to a file, through one beside it: a full disk or a stopped kernel leaves no half of it.

    Raises OSError where it cannot be written; an older file of that name is then left as it was.
    """
    path = Path(path)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
