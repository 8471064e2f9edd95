"""Which files of this machine a submission's process needs, wherever they are, and which it must not see. Linux only.

A sandbox is built in three layers. The system's programs and libraries come first. Folders that are the submission's
own (EMPTY), and the course where it would be seen through something else, cover whatever is there. Then Python, the
packages and the course's `utils` come back at their own paths, also below what was covered.
"""

from __future__ import annotations

import os
import site
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from utils.common.files import ROOT

HOME = "/home/student"
EMPTY = ("/tmp", "/dev/shm", HOME)  # folders that are the submission's own, in memory
# Read-only parts of the system: programs and libraries. Linked folders (/lib -> usr/lib) stay links.
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts")
# The parts of a Python's folder that it runs from: for a folder with other things in it, such as a person's home.
PARTS = ("bin", "lib", "lib64", "pyvenv.cfg")


@dataclass(frozen=True)
class Places:
    """Paths for a sandbox, as text. Each of `needed` stays visible, read-only, at its own path."""

    needed: tuple[str, ...]
    covered: tuple[str, ...]  # the course, where a part of the system or of Python would show it
    ways: tuple[str, ...]  # folders below an empty or a covered one that lead to what is needed

    def seen_through(self, path: Path) -> str:
        """The folder through which a submission would see `path`, or nothing."""
        covers = (*EMPTY, *self.covered)
        return next((each for each in (*SYSTEM, *self.needed) if _shown(path.resolve(), each, covers)), "")

    def conflict(self) -> str:
        """Why no sandbox can be built from these, in a sentence, or nothing."""
        for path in self.needed:
            for folder in EMPTY:
                if Path(folder).is_relative_to(path):
                    return f"{path} is needed to run Python, and each submission has {folder} for itself"
        return ""


@cache
def places() -> Places:
    """The places of the Python that runs, and of this copy of the course."""
    return find_places(
        [sys.base_prefix, sys.prefix, Path(os.path.realpath(sys.executable)).parents[1]],
        # What `pip install --user` has installed, where this Python sees it.
        [site.getusersitepackages()] if site.getusersitepackages() in sys.path else [],
        ROOT,
    )


def find_places(prefixes: Iterable[str | Path], packages: Iterable[str | Path], course: Path) -> Places:
    """The places for a Python in `prefixes`, with more `packages`, and for the course in the folder `course`."""
    wanted = [part for prefix in prefixes for part in _parts(Path(prefix), course)]
    wanted += [*map(Path, packages), course / "utils"]
    # Under both names, where a part of one is a link.
    wanted += [Path(os.path.realpath(path)) for path in wanted]
    around = [path for path in wanted if not path.is_relative_to(course)]
    covered = [str(course)] if any(_shown(course, str(folder), EMPTY) for folder in (*SYSTEM, *around)) else []
    needed = _outermost(wanted, [*EMPTY, *covered])
    return Places(needed, tuple(covered), _ways(needed, [*EMPTY, *covered]))


def _parts(prefix: Path, course: Path) -> list[Path]:
    """The whole folder of a Python, or what is Python's in it where the course or a person's home is there too."""
    if any(path.is_relative_to(prefix) for path in (course, Path.home())):
        return [prefix / part for part in PARTS if (prefix / part).exists()]
    return [prefix]


def _below(path: str | Path, folders: Iterable[str | Path]) -> bool:
    return any(Path(path).is_relative_to(folder) for folder in folders)


def _shown(path: Path, folder: str, covers: Iterable[str]) -> bool:
    """Whether a path is there because `folder` is, and no cover lies between."""
    between = any(_below(path, [cover]) and not _below(folder, [cover]) for cover in covers)
    return _below(path, [os.path.realpath(folder), folder]) and not between


def _outermost(paths: Iterable[Path], covers: Sequence[str]) -> tuple[str, ...]:
    """Those that no part of the system and none of the others shows, the shortest first."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda each: (len(each.parts), each)):
        if not any(_shown(path, folder, covers) for folder in (*SYSTEM, *found)):
            found.append(str(path))
    return tuple(found)


def _ways(needed: Iterable[str], covers: Iterable[str]) -> tuple[str, ...]:
    """The first folder on the way from a cover to each needed path below it.

    Each is a mount of its own in the sandbox: what is mounted cannot be renamed, and nothing put in its place.
    """
    found: list[str] = []
    for path in needed:
        for cover in covers:
            if _below(path, [cover]) and path != cover:
                way = str(Path(cover, Path(path).relative_to(cover).parts[0]))
                if way not in (*found, *needed, *covers):
                    found.append(way)
    return tuple(found)
