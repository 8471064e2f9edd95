"""Hostile submissions (tests/attacks): none gains a point, reaches outside, or harms who is graded beside it.

Each is graded by a process of its own kind, as `course grade` would, which may die or hang without harm to the tests.
What an attack leaves outside carries a mark by which it is found, and removed, after each.
"""

from __future__ import annotations

import csv
import json
import os
import re
import selectors
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import nbformat
import pytest

from tests.support.a_grader import LIMITS
from tests.support.notebooks import ROOT, notebook_with, source_of
from tests.support.parts import read_parts
from tests.support.tiers import THOROUGH, first_attacks
from utils.common.files import python_path
from utils.exercises.facts import load_lab
from utils.grading.run.submissions import FOLDERS

FOLDER = ROOT / "tests" / "attacks"
MOST_MEMORY = 600e6  # bytes that the grader may grow by, whatever a submission sends
LONGEST_FEEDBACK = 100_000
PART = re.compile(r"first|last|build|several|class|instead of \w+")
KEYS = "lab|honest|keeps|may lose|seconds|within|limit"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e]")
GROUPS = 2  # of tests, each with a grader of its own, which takes ten CPU seconds to start; `make test` has the first
# What most of the time goes into. Judged where an attack is about it, and in innocent notebooks: those of lab01 here,
# those of the others in test_sealed_kernels.py.
COSTLY = {"lab01": {"ex2", "ex5"}, "lab04": {"ex1", "ex2", "ex4", "ex5"}, "lab05": {"ex2", "ex3", "ex5"}}
COSTLY |= {f"lab{number:02}": {f"ex{n}" for n in range(1, 6)} for number in (3, *range(6, 20))}


# --- the attacks, as they are written -------------------------------------------------------------------------


@dataclass
class Attack:
    name: str
    says: str
    parts: dict[str, str]
    lab: str = "lab01"
    honest: set[str] = field(default_factory=set)
    may_lose: set[str] = field(default_factory=set)
    keeps: int = 0  # points of parts that are honestly solved in an exercise that is not
    seconds: float = 180
    within: float = LIMITS["submission"]
    limit: bool = False

    @property
    def replaced(self) -> dict[str, str]:
        return {name.split()[-1]: text for name, text in self.parts.items() if name.startswith("instead")}


@cache
def points_of(lab: str) -> dict[str, int]:
    """The points of each exercise. A star counts as one here: it is not to be gained either."""
    return {name: 1 if exercise.star else exercise.points for name, exercise in load_lab(lab).exercises.items()}


def read_attack(path: Path) -> Attack:
    says, _, found = read_parts(path)
    parts = {}
    for headline, text in found:
        name, _, included = headline.partition(": ")
        assert PART.fullmatch(name), f"{path.name}: '# %% {headline}'"
        before = (FOLDER / "parts" / f"{included}.py").read_text() + "\n\n" if included else ""
        parts[name] = before + text.strip() + "\n"
    keys = dict(re.findall(rf"(?:^|\. )({KEYS}): ([\w, ]+)", says, re.MULTILINE))
    attack = Attack(path.stem, says, parts, keys.get("lab", "lab01").strip())
    every = set(points_of(attack.lab))

    def exercises(words: str) -> set[str]:
        return every if words == "everything" else set() if words == "none" else set(re.split(r", *", words))

    attack.honest = exercises(keys["honest"]) if "honest" in keys else every - set(attack.replaced)
    attack.may_lose = exercises(keys["may lose"]) if "may lose" in keys else set()
    assert attack.honest | attack.may_lose <= every, path.name
    attack.seconds = float(keys.get("seconds", attack.seconds))
    attack.within = float(keys.get("within", attack.within))
    attack.limit = "limit" in keys
    attack.keeps = int(keys.get("keeps", attack.keeps))
    return attack


ATTACKS = {path.stem: read_attack(path) for path in sorted(FOLDER.glob("*.py"))}
CLASSES = [name for name, attack in ATTACKS.items() if "class" in attack.parts]
SEVERAL = [name for name, attack in ATTACKS.items() if "several" in attack.parts]
SINGLE = [name for name in ATTACKS if name not in CLASSES + SEVERAL]


def notebook_of(name: str) -> bytes:
    """The notebook with an attack in it."""
    attack = ATTACKS[name]
    notebook = notebook_with(attack.lab, {exercise: marked(text) for exercise, text in attack.replaced.items()})
    for where in ("first", "last"):
        if where in attack.parts:
            cell = nbformat.v4.new_code_cell(marked(attack.parts[where]), id=f"{name[:50]}-{where}")
            notebook.cells.insert(0 if where == "first" else len(notebook.cells), cell)
    if "build" in attack.parts:
        notebook = run_part(attack, "build")["build"](notebook)
    return notebook if isinstance(notebook, bytes) else json.dumps(notebook).encode()


def run_part(attack: Attack, part: str) -> dict:
    own = {"notebook_of": notebook_of}
    exec(compile(marked(attack.parts[part]), attack.name, "exec"), own)
    return own


def marked(text: str) -> str:
    for name, value in world().names.items():
        text = text.replace(f"@{name}@", str(value))
    return text


# --- the world outside: canaries, listeners, a sentry, and a grader ----------------------------------------------


class World:
    """What surrounds the grader while it is tested, and what an attack must not reach."""

    def __init__(self):
        # Short, for the names of sockets have to be.
        self.folder = Path(tempfile.mkdtemp(prefix="atk", dir="/tmp"))
        self.mark = f"m{os.urandom(5).hex()}"
        for name in ("home", "tmp", "class"):
            (self.folder / name).mkdir()
        self.victim = self.folder / "class" / "innocent" / source_of("lab01").name
        self.victim.parent.mkdir()
        nbformat.write(notebook_with("lab01", {}), self.victim)
        self.content = self.victim.read_bytes()
        self.secret = self.folder / "home" / "grades-of-last-year.txt"
        self.secret.write_text("private")
        self.heard: list[str] = []
        self.grader: subprocess.Popen | None = None
        self.names = {
            "MARK": self.mark,
            "ROOT": ROOT,
            "HOME": self.folder / "home",
            "CLASS": self.folder / "class",
            "VICTIM": self.victim,
            "SECRET": self.secret,
            "SOCKET": self.folder / "socket",
            "ABSTRACT": f"abstract-{self.mark}",
        } | self._listen()
        self.environment = os.environ | {
            "HOME": str(self.folder / "home"),
            "TMPDIR": str(self.folder / "tmp"),
            "COURSE_DEVICES": "simulated",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": python_path([str(ROOT / "tests")]),
            "INSTRUCTORS_TOKEN": f"secret-{self.mark}",
        }
        self._post_sentry()

    def _listen(self) -> dict[str, int]:
        tcp, udp = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", 0))
        unix, abstract = (socket.socket(socket.AF_UNIX) for _ in range(2))
        unix.bind(str(self.folder / "socket"))
        os.chmod(self.folder / "socket", 0o777)
        os.chmod(self.folder, 0o755)
        abstract.bind(f"\0abstract-{self.mark}")
        lines = selectors.DefaultSelector()
        for name, line in (("TCP", tcp), ("UDP", udp), ("a Unix socket", unix), ("an abstract socket", abstract)):
            if name != "UDP":
                line.listen()
            lines.register(line, selectors.EVENT_READ, name)

        def hear():
            while True:
                for key, _ in lines.select():
                    if key.data == "UDP":
                        key.fileobj.recv(100)
                    else:
                        key.fileobj.accept()[0].close()
                    self.heard.append(key.data)

        threading.Thread(target=hear, daemon=True).start()
        return {"PORT": tcp.getsockname()[1], "UDP": udp.getsockname()[1]}

    def _post_sentry(self) -> None:
        command = [sys.executable, "-c", "import time; time.sleep(3600)", f"sentry-{self.mark}"]
        self.sentry = subprocess.Popen(command)

    # --- grading ----------------------------------------------------------------------------------------------

    def grade(
        self,
        content: bytes,
        lab: str,
        seconds: float,
        within: float = LIMITS["submission"],
        left_out: set[str] = frozenset(),
    ) -> dict:
        """Have a submission graded by a process that may come to harm. What came of it, and what it left behind.

        The exercises that are `left_out` are not judged.
        """
        path = self.folder / "class" / "mallory" / source_of(lab).name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        left_out = sorted(left_out)
        result = self.ask({"path": str(path), "lab": lab, "within": within, "left_out": left_out}, seconds)
        if result.get("grew", 0) > MOST_MEMORY / 2:
            self.stop_grader()  # so that the next one is measured from the start
        shutil.rmtree(path.parent)
        return result | {"left": self.look_around()}

    def grade_class(self, arguments: list[str], seconds: float) -> dict:
        """Have a class graded, by `course` with these arguments: what it printed, and what it left behind."""
        return self.ask({"arguments": arguments}, seconds) | {"left": self.look_around()}

    def ask(self, request: dict, seconds: float) -> dict:
        """What the grader's process answers."""
        if self.grader is None or self.grader.poll() is not None:
            command = [sys.executable, "-m", "tests.support.a_grader"]
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.grader = subprocess.Popen(command, cwd=ROOT, env=self.environment, start_new_session=True, **pipes)
        self.grader.stdin.write(json.dumps(request) + "\n")
        self.grader.stdin.flush()
        answer: list[str] = []
        reader = threading.Thread(target=lambda: answer.append(self.grader.stdout.readline()), daemon=True)
        reader.start()
        reader.join(seconds)
        if not answer:
            self.stop_grader()
            result = {"failed": f"the grader did not end within {seconds:g} seconds"}
        elif not answer[0]:
            result = {"failed": f"the grader's process ended with {self.grader.wait()}"}
        else:
            result = json.loads(answer[0])
        return result

    def stop_grader(self) -> None:
        if self.grader is not None:
            self.grader.kill()
            self.grader.wait()
            self.grader = None
            time.sleep(1)  # what dies with it

    def look_around(self) -> list[str]:
        """What was touched outside since the last look. Cleans up."""
        left, self.heard[:] = [f"heard by {name}" for name in self.heard], []
        if self.victim.read_bytes() != self.content:
            left.append("another submission was changed")
            self.victim.write_bytes(self.content)
        if self.sentry.poll() is not None:
            left.append("a process beside the grader was killed")
            self._post_sentry()
        for folder in places():
            for entry in _entries(folder):
                if self.mark in entry:
                    left.append(f"file {folder}/{entry}")
                    Path(folder, entry).unlink()
        left += self._temporary()
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = Path("/proc", number, "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"daemon-{self.mark}".encode() in line:
                left.append("a process lives on")
                os.kill(int(number), 9)
        return left

    def _temporary(self) -> list[str]:
        """What graders have left in the folder for temporary files. The one that is at work has a folder, empty now."""
        left, own = [], f"{FOLDERS}{self.grader.pid}-" if self.grader else "no grader's"
        for path in (self.folder / "tmp").iterdir():
            if path.name.startswith(own):
                # multiprocessing has a folder in it, where workers have been started.
                entries = [entry for entry in _entries(path) if not entry.startswith("pymp-")]
                left += [f"temporary {path.name}/{entry}" for entry in entries]
            else:
                if path.name.startswith((FOLDERS, "submission")):  # PyTorch has a folder there, too
                    left.append(f"temporary {path.name}")
                shutil.rmtree(path, ignore_errors=True)
        return left

    def close(self) -> None:
        self.stop_grader()
        self.sentry.kill()
        self.sentry.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def _entries(folder) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def places() -> list[Path]:
    """Where an attack may have left a file."""
    here = world().folder
    found = [here, here / "home", here / "class", here / "class" / "innocent", ROOT, ROOT / "solutions" / "lab01"]
    found += [
        ROOT / "utils",
        ROOT / "utils" / "grading" / "run",
        sysconfig.get_paths()["purelib"],
        sys.prefix,
        sys.base_prefix,
    ]
    found += [Path.home(), *("/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr", "/")]
    return list(dict.fromkeys(map(Path, found)))


@cache
def world() -> World:
    return World()


@pytest.fixture(scope="module", autouse=True)
def _world_ends():
    yield
    if world.cache_info().currsize:
        world().close()


# --- what must hold ---------------------------------------------------------------------------------------------


def group(number: int):
    return pytest.mark.xdist_group(f"attacks-{number % GROUPS}")


def each(names: list[str]) -> list:
    """A parameter for each attack: first those that `make test` runs, which the table in attacks/README.md names."""
    first = [name for name in names if name in first_attacks()]
    others = [name for name in names if name not in first]
    return [pytest.param(name, marks=group(0)) for name in first] + [
        pytest.param(name, marks=[group(number), THOROUGH]) for number, name in enumerate(others)
    ]


def unharmed(result: dict) -> list[str]:
    """What is wrong with a result whatever the attack was."""
    if "failed" in result:
        return [result["failed"], *result["left"]]
    wrong = list(result["left"])
    if result["grew"] > MOST_MEMORY:
        wrong.append(f"the grader grew by {result['grew'] / 1e6:.0f} MB")
    if len(result["feedback"]) > LONGEST_FEEDBACK or len(result["table"]) > LONGEST_FEEDBACK:
        wrong.append(f"the feedback has {len(result['feedback'])} characters, the table {len(result['table'])}")
    if CONTROL.search(result["feedback"]):
        wrong.append(f"the feedback has the control character {CONTROL.search(result['feedback'])[0]!r}")
    if CONTROL.search(result["note"]):
        wrong.append(f"the note has the control character {CONTROL.search(result['note'])[0]!r}")
    return wrong


@pytest.mark.parametrize("name", each(SINGLE))
def test_an_attack_gains_nothing_and_harms_no_one_else(name):
    attack = ATTACKS[name]
    left_out = COSTLY.get(attack.lab, set()) & attack.honest
    result = world().grade(notebook_of(name), attack.lab, attack.seconds, attack.within, left_out)
    wrong = unharmed(result)
    if "failed" not in result:
        points_to_get = points_of(attack.lab)
        assert result["points"].keys() == points_to_get.keys() - left_out
        for exercise, got in result["points"].items():
            points = points_to_get[exercise]
            if exercise not in attack.honest and got > attack.keeps and not attack.limit:
                wrong.append(f"{exercise} gained {got - attack.keeps} points")
            if exercise in attack.honest - attack.may_lose and got < points:
                wrong.append(f"{exercise} is honest and lost its points")
        if not attack.limit:
            wrong += [line.strip() for line in (result["feedback"] + result["note"]).splitlines() if "LOOT" in line]
    told = result.get("feedback", "")[:3000]
    assert not wrong, f"{attack.says}\n\n{wrong}\n\n{result.get('flags')}\n{told}"


@pytest.mark.parametrize("name", each(SEVERAL))
def test_what_is_no_notebook_gives_nothing_and_harms_no_one_else(name):
    attack = ATTACKS[name]
    contents = run_part(attack, "several")["several"](notebook_with(attack.lab, {}))
    wrong = {}
    for kind, content in contents.items():
        result = world().grade(content, attack.lab, attack.seconds)
        found = unharmed(result)
        if sum(result.get("points", {}).values()):
            found.append(f"it has {result['points']}")
        if found:
            wrong[kind] = found
    assert not wrong, wrong


@pytest.mark.parametrize("name", each(CLASSES))
def test_a_class_with_attackers_is_graded_to_the_end(name, tmp_path):
    folder, out = tmp_path / "handed-in", tmp_path / "graded"
    shutil.copytree(world().victim.parent, folder / "innocent")
    place, points, count = run_part(ATTACKS[name], "class")["class_"](folder, notebook_with("lab01", {}))
    arguments = ["grade", "lab01", str(place), "--out", str(out), "--jobs", "2"]
    for option in ("cell", "call", "submission"):
        arguments += [f"--{option}-seconds", str(LIMITS[option])]
    result = world().grade_class(arguments, 400)
    assert "failed" not in result, result
    assert not result["left"]
    told_all = result["told"]
    with (out / "grades.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    totals = {row["student"]: int(row["total"]) for row in rows}
    assert totals.get("innocent") == 10, told_all
    for student, total in totals.items():
        for beginning, most in points.items():
            if student.startswith(beginning) and student != "innocent":
                assert total == most, student
    assert count is None or len(rows) == count
    cells = [cell for row in rows for cell in row.values() if cell]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    assert not CONTROL.search(told_all), told_all
    told = [line for line in told_all.splitlines() if re.search(r" / 10 ", line)]
    assert len(told) == len(rows), told_all  # no name or note makes a line of its own
    assert "LOOT" not in told_all
    inside = [path for path in tmp_path.rglob("*") if world().mark in path.name]
    assert not inside
    written = {path.parent.relative_to(out).parts[:1] for path in out.rglob("*") if path.is_file()}
    assert len(list((out / "feedback").glob("*.txt"))) == len(rows), written


INNOCENT = [pytest.param(number, marks=[group(number), *([THOROUGH] if number else [])]) for number in range(GROUPS)]


@pytest.mark.parametrize("number", INNOCENT)
def test_the_same_grader_still_gives_an_innocent_notebook_everything(number):
    result = world().grade(world().content, "lab01", 90)
    assert not unharmed(result)
    assert result["points"] == points_of("lab01"), result
    assert (result["status"], result["note"], result.get("flags", [])) == ("ok", "", [])


@group(0)
def test_an_honest_mistake_is_still_told_in_words():
    notebook = notebook_with("lab01", {"ex1": "def make_layers(device0, device1):\n    return undefined_name\n"})
    result = world().grade(json.dumps(notebook).encode(), "lab01", 90)
    assert "NameError: name 'undefined_name' is not defined" in result["feedback"]
    assert "return undefined_name" in result["feedback"]
    assert result["points"] == points_of("lab01") | {"ex1": 0}


def test_there_are_attacks_of_every_kind():
    assert len(ATTACKS) > 35
    for attack in ATTACKS.values():
        assert attack.says.splitlines()[0].endswith("."), attack.name
        assert attack.parts, attack.name


def test_the_guide_names_every_attack_that_is_known_to_gain_something():
    guide = (ROOT / "docs" / "instructors.md").read_text()
    known = [attack for attack in ATTACKS.values() if attack.limit]
    assert len(known) <= 1, "mend the grader, do not widen its limits"
    missing = [attack.name for attack in known if f"`{attack.name}`" not in guide]
    assert not missing
