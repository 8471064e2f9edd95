"""The folder of a class: what the instructor decides, the students' homes, and everything that was handed in.

class.toml              what the instructor decides; students.txt: who may log in
jupyterhub_config.py    the hub's own configuration, which calls configure.py and may change anything
course/                 the course as students get it: they read it, and cannot change it
homes/ann/              ann's files: copies of the lessons and labs
handed_in/ann/lab01/    her notebook as she last handed it in, which `course grade lab01 --hub` reads
receipts/ann/           what she was told each time (lab01.jsonl), and the notebooks that were replaced
results/ann/            the pages that she got back, by `course grade --hub ... --give-back`
hub/                    the hub's database and secrets
warm/                   where students' servers reach the process that forks their kernels (warm_service.py)
"""

from __future__ import annotations

import re
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT, write_whole
from utils.grading.marking.late import deadline as deadline_of

SETTINGS, STUDENTS, CONFIG = "class.toml", "students.txt", "jupyterhub_config.py"
LOGIN = re.compile(r"[a-z0-9][a-z0-9_@+-]*(?:\.[a-z0-9_@+-]+)*")  # also the name of a folder
LONGEST_LOGIN = 64
FIRST_SETTINGS = """\
# A class. Change what you like, then start it again: course hub {folder} (deadlines count at once)

address = "127.0.0.1"  # "0.0.0.0" to be reached from other machines: put TLS before it (docs/classroom.md)
port = 8000  # and the three after it
# Everybody in students.txt logs in with this password. Who has it can log in as anybody in the list.
password = "{password}"
# These see everybody's hand-ins, and log in with the other password (32 characters or more).
instructors = ["instructor"]
instructors_password = "{long_password}"

memory_gib = 4  # of private memory that one process of a student may ask for, used or not
student_gib = 3  # of memory that all processes of a student use together: beyond it the largest is ended
free_gib = 1  # memory of the machine that stays free: where it would not, servers wait in line
idle_minutes = 60  # a server that does nothing for so long is stopped; files stay
# Servers and kernels are forked from one process that has PyTorch loaded: less memory, and no wait. Needs Linux 6.5.
warm = true
# A page for you, /services/class/live: which exercises hold, and where many are stuck. Students read so at the login.
live = false

[deadlines]  # a later hand-in is taken, and told that it is late
# lab01 = "2026-12-01 23:59 Europe/Berlin"
"""
FIRST_CONFIG = """\
# The hub of this class. Any setting of JupyterHub can be changed below the first lines.
from utils.hub.configure import configure

configure(get_config(), {folder!r})  # noqa: F821  (JupyterHub provides it)

# Your university's login in place of the list's password: docs/classroom.md has the lines.
"""
KINDS = {
    "address": str,
    "port": int,
    "password": str,
    "instructors": list,
    "instructors_password": str,
    "memory_gib": (int, float),
    "student_gib": (int, float),
    "free_gib": (int, float),
    "idle_minutes": (int, float),
    "warm": bool,
    "live": bool,
    "deadlines": dict,
}


@dataclass(frozen=True)
class ClassFolder:
    """A class, read. `deadlines` are moments by lab."""

    path: Path
    students: tuple[str, ...]
    address: str = "127.0.0.1"
    port: int = 8000
    password: str = ""
    instructors: tuple[str, ...] = ()
    instructors_password: str = ""
    memory_gib: float = 4
    student_gib: float = 3
    free_gib: float = 1
    idle_minutes: float = 60
    warm: bool = True
    live: bool = False
    deadlines: Mapping[str, datetime] = field(default_factory=dict)

    @property
    def course(self) -> Path:
        return self.path / "course"

    @property
    def homes(self) -> Path:
        return self.path / "homes"

    @property
    def handed_in(self) -> Path:
        return self.path / "handed_in"

    @property
    def receipts(self) -> Path:
        return self.path / "receipts"

    @property
    def results(self) -> Path:
        return self.path / "results"

    @property
    def hub(self) -> Path:
        return self.path / "hub"

    @property
    def warm_socket(self) -> Path:
        return self.path / "warm" / "socket"


def make_class(folder: Path, students: Path) -> None:
    """A new class of the students in a file, one login a line. Raises Problem, and makes nothing, for a wrong list."""
    if (folder / SETTINGS).exists():
        raise Problem(f"{folder} is a class already: change {folder / STUDENTS}, and start it by `course hub {folder}`")
    logins = read_students(students)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("homes", "handed_in", "receipts", "results", "hub"):
        (folder / name).mkdir(mode=0o711 if name == "homes" else 0o700, exist_ok=True)
    write_whole(folder / STUDENTS, "".join(f"{login}\n" for login in logins))
    words = {"folder": str(folder), "password": secrets.token_urlsafe(9), "long_password": secrets.token_urlsafe(30)}
    write_whole(folder / CONFIG, FIRST_CONFIG.format(folder=str(folder.resolve())))
    (folder / SETTINGS).touch(mode=0o600)
    (folder / SETTINGS).write_text(FIRST_SETTINGS.format(**words), encoding="utf-8")


def read_students(path: Path) -> list[str]:
    """The logins in a file, one a line. Raises Problem for what is none, with its line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} cannot be read as a list of students, one login a line: {error}") from None
    logins = {}
    for number, line in enumerate(lines, 1):
        login = line.strip().lower()  # JupyterHub's logins are in small letters
        if not login or login.startswith("#"):
            continue
        if LOGIN.fullmatch(login) is None or len(login) > LONGEST_LOGIN:
            raise Problem(
                f"{path}, line {number}: {line.strip()[:LONGEST_LOGIN]!r} is no login. Letters without accents, digits "
                "and . _ - + @ make one: use student numbers, or the part of an email before the @"
            )
        if login in logins:
            raise Problem(f"{path}, line {number}: {login} stands in line {logins[login]}, too")
        logins[login] = number
    if not logins:
        raise Problem(f"{path} has no students in it: write one login a line")
    return list(logins)


def read_class(folder: Path) -> ClassFolder:
    """The class in a folder. Raises Problem for what is none, and for a setting that is wrong."""
    path = folder / SETTINGS
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Problem(f"{folder} is no class: make one by `course hub {folder} --students FILE`") from None
    except (OSError, ValueError) as error:
        raise Problem(f"{path}: {error}") from None
    for name, value in told.items():
        if name not in KINDS:
            raise Problem(f"{path}: there is no setting {name}. There are {', '.join(KINDS)}")
        if not isinstance(value, KINDS[name]) or isinstance(value, bool) != (KINDS[name] is bool):
            raise Problem(f"{path}: {name} = {value!r} is of the wrong kind. See what `course hub` wrote at first")
    deadlines = {}
    labs = sorted(each.name for each in (ROOT / "labs").glob("lab*"))
    for lab, at in told.pop("deadlines", {}).items():
        if lab not in labs:
            raise Problem(f"{path}, [deadlines]: there is no {lab}. There are {', '.join(labs)}")
        try:
            moment = deadline_of(str(at)).at
        except Problem as problem:
            raise Problem(f"{path}, {lab}: {problem}".replace("--deadline ", "")) from None
        if moment is not None:
            deadlines[lab] = moment
    instructors = tuple(str(name).lower() for name in told.pop("instructors", ()))
    return ClassFolder(
        folder.resolve(),
        tuple(read_students(folder / STUDENTS)),
        instructors=instructors,
        deadlines=deadlines,
        **told,
    )
