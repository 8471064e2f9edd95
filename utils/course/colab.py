"""The course in somebody else's notebook: Colab, Kaggle, a server. `tools/first_cell.py` finds it and calls `set_up`.

What is installed is kept, PyTorch above all: a second one takes minutes and may not fit the driver. Only packages that
are missing altogether are installed, and what cannot be mended here is said in words.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version

from packaging.requirements import Requirement

from utils.common.files import ROOT, python_path

WITH_THE_GPU = ("torch", "torchvision")


def set_up() -> None:
    """Make this notebook able to run the course, and print what it found."""
    print(f"The course is in {ROOT}{'' if os.access(ROOT, os.W_OK) else ' (read-only, which will do)'}.")
    _tell_child_processes()
    missing, too_old = lacking()
    if wanted := [name for name in missing if name not in WITH_THE_GPU]:
        install(wanted)
    for line in advice(missing, too_old):
        print(line)
    if not any(name in WITH_THE_GPU for name in {**missing, **too_old}):
        print(f"PyTorch {version('torch')} is kept. Go on with the next cell.")


def lacking() -> tuple[dict[str, str], dict[str, str]]:
    """What the course needs and is not here, and what is here in a version that it does not work with.

    Both say by name which versions it works with.
    """
    missing, too_old = {}, {}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for requirement in map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["generate"]]):
        try:
            here = version(requirement.name)
        except PackageNotFoundError:
            missing[requirement.name] = str(requirement.specifier)
            continue
        if not requirement.specifier.contains(here, prereleases=True):
            too_old[requirement.name] = f"{requirement.specifier}, and this is {here}"
    return missing, too_old


def install(wanted: list[str]) -> None:
    """Install packages by their names; what they need and is there stays. Without a network this is said, no more."""
    print(f"Installing {', '.join(wanted)} ...")
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        print(f"That did not work: is there a network? (On Kaggle: Settings, Internet on.) Without {', '.join(wanted)}")
        print("most of the course works; what does not will say so.")


def advice(missing: dict[str, str], too_old: dict[str, str]) -> list[str]:
    """What to do about what `set_up` leaves alone."""
    lines = []
    for name, wanted in {**missing, **too_old}.items():
        if name in WITH_THE_GPU:
            lines.append(
                f"The course needs {name} {wanted if name in too_old else wanted + ', and there is none here'}."
            )
        elif name in too_old:
            lines.append(f"The course was written for {name} {wanted}. If something looks odd: %pip install -U {name}")
    if any(name in WITH_THE_GPU for name in {**missing, **too_old}):
        lines.append("Run  %pip install -q -U torch torchvision  (minutes), restart the session, and run this again.")
    return lines


def _tell_child_processes() -> None:
    """Programs that the course starts, such as ranks, find it by the environment, as this notebook does by its path."""
    os.environ["PYTHONPATH"] = python_path(os.environ.get("PYTHONPATH", "").split(os.pathsep))
