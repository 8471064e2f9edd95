"""Copies of the course and of its environment in other places, by hard links where the disk is the same."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from .notebooks import ROOT

NOT_COPIED = (".git", ".venv", "build", "screenshots", ".pytest_cache", ".ruff_cache")


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # another disk
        shutil.copy2(source, target, follow_symlinks=False)


def copy_of_course(place: Path) -> Path:
    """The course without its environment, in a new folder `place`."""
    ignored = shutil.ignore_patterns(*NOT_COPIED)
    return Path(shutil.copytree(ROOT, place, symlinks=True, ignore=ignored, copy_function=link_or_copy))


def copy_of_environment(place: Path, python: Path | None = None) -> Path:
    """The environment that runs, in a new folder `place`; if asked, as if another `python` had made it."""
    shutil.copytree(sys.prefix, place, symlinks=True, copy_function=link_or_copy)
    if python is not None:
        (place / "bin" / "python").unlink()
        (place / "bin" / "python").symlink_to(python)
        about = place / "pyvenv.cfg"
        lines = about.read_text().splitlines()
        about.unlink()  # not written to: a hard link is the original, too
        about.write_text("\n".join(f"home = {python.parent}" if "home" in line else line for line in lines))
    return place


def python_of_all() -> Path | None:
    """A Python of this version that every user may run, or None."""
    here = Path(os.path.realpath(sys.executable))
    system = Path("/usr/bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    for python in (here, system):
        if python.exists() and all(path.stat().st_mode & 0o005 == 0o005 for path in (python, *python.parents)):
            return python
    return None
