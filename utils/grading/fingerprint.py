"""What a grade depends on, as a digest: the submission, the lab's facts, and the modules that judge it.

Modules are found by following imports, from what judges and from the lab's facts and notebook: a change to one of them
judges the class again, and a change to any other module of the course does not. Comments and layout of the code do not
count either. Names of modules in text count as imports, since some are loaded by their names.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path

from utils.common.files import ROOT
from utils.exercises.facts import facts_path, lab_sources
from utils.grading.handed_in.reader import LARGEST_FILE
from utils.grading.run.kernel import Limits
from utils.grading.run.submissions import Submission

# Where judging begins: the grader's side, the student's side, and what forks that.
BEGINNINGS = ("utils.grading.grade", "utils.grading.run.student_process", "utils.grading.run.forked_kernels")
# Packages that count as a whole, whatever is imported of them: they are what judges.
WHOLE = ("utils/exercises/facts", "utils/simgpu/src/simgpu", "utils/grading/run", "utils/grading/handed_in")
COURSE = re.compile(r"utils(?:\.\w+)*")
# The course's modules that a notebook names, in its JSON.
NAMED = re.compile(rb"\butils((?:\.\w+)+)(?:\s+import\s+([\w, ]+))?|\butils\s+import\s+([\w, ]+)")


def fingerprint(submission: Submission, lab: str, limits: Limits) -> str:
    """A digest of all that the submission's grade depends on. The same on every machine."""
    digest = hashlib.sha256(_judging(lab).encode())
    digest.update(f"{limits} {submission.digest()}".encode())
    for path in submission.files:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE)
        # A zip has not been looked into yet: it may import any of the course.
        zipped = content.startswith(b"PK")
        digest.update((course_digest() if zipped else _beyond(lab, frozenset(_named(content)))).encode())
    return digest.hexdigest()


@cache
def course_digest() -> str:
    """A digest of the whole course: of what judges, and of what only tells."""
    return hashlib.sha256("".join(map(_bytes_of, sorted(_files(ROOT / "utils")))).encode()).hexdigest()


def judging_files(lab: str, root: Path = ROOT) -> frozenset[Path]:
    """The files that a grade in this lab depends on."""
    tests = [facts_path(lab, hidden=hidden, root=root) for hidden in (False, True)]
    names = {*BEGINNINGS, *_imports_of_cells(lab, root)}
    names |= {name for path in tests for name in _imports(path, root)}
    whole = {path for folder in WHOLE for path in _files(root / folder)}
    # An untouched notebook is known by the one that was released.
    other = {*tests, *(root / "labs" / lab).glob("*.ipynb")}
    return followed(names | {_module(path, root) for path in whole if path.suffix == ".py"}, root) | whole | other


def followed(names: Iterable[str], root: Path = ROOT) -> frozenset[Path]:
    """The files of these modules and of all that they import, directly or not. What is no module is left out."""
    found: set[Path] = set()
    waiting = list(names)
    while waiting:
        parts = waiting.pop().split(".")
        # With a module its packages are imported, too.
        for path in filter(None, (_source(root, parts[:count]) for count in range(1, len(parts) + 1))):
            if path not in found:
                found.add(path)
                waiting += _imports(path, root)
    return frozenset(found)


def digest_of(files: Iterable[Path], root: Path = ROOT) -> str:
    """A digest of what these files of the course do, and of their names."""
    parts = [f"{path.relative_to(root).as_posix()} {_code_of(path, root)}\n" for path in files]
    return hashlib.sha256("".join(sorted(parts)).encode()).hexdigest()


@cache
def _judging_files(lab: str) -> frozenset[Path]:
    return judging_files(lab)


@cache
def _judging(lab: str) -> str:
    return f"{digest_of(_judging_files(lab))} {sys.version_info[:3]} {version('torch')}"


@cache
def _beyond(lab: str, names: frozenset[str]) -> str:
    """A digest of what a notebook imports of the course beyond what its lab does."""
    return digest_of(followed(names) - _judging_files(lab))


def _code_of(path: Path, root: Path) -> str:
    """A digest of a file: of Python the code, without its comments and its layout."""
    return _read(path, root)[1] if path.suffix == ".py" else _bytes_of(path)


def _bytes_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _imports(path: Path, root: Path) -> frozenset[str]:
    """The course's modules that a module imports, or that it has the names of."""
    return _read(path, root)[0]


def _read(path: Path, root: Path) -> tuple[frozenset[str], str]:
    """What a module imports of the course, and a digest of its code."""
    package = _module(path, root).split(".")[: None if path.name == "__init__.py" else -1]
    return _read_in(path.read_bytes(), tuple(package))


@cache  # of the text, and not of the file: that may change
def _read_in(source: bytes, package: tuple[str, ...]) -> tuple[frozenset[str], str]:
    tree = ast.parse(source)
    code = ast.dump(tree).encode(errors="surrogatepass")
    return frozenset(_named_in(tree, package)), hashlib.sha256(code).hexdigest()


def _named_in(tree: ast.AST, package: tuple[str, ...]) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        yield from filter(COURSE.fullmatch, names)


def _imports_of_cells(lab: str, root: Path) -> set[str]:
    """The course's modules that the lab's own notebook imports."""
    return _named(lab_sources([lab], root)[0].read_bytes())


def _named(notebook: bytes) -> set[str]:
    found = set()
    for below, some, others in NAMED.findall(notebook):
        names = [name.split()[0] for name in (some or others).decode().split(",") if name.split()]
        base = f"utils{below.decode()}"
        found |= {base, *(f"{base}.{name}" for name in names)}
    return found


def _module(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _source(root: Path, parts: list[str]) -> Path | None:
    place = root.joinpath(*parts)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def _files(folder: Path) -> list[Path]:
    """What is of the course in a folder, and nothing that Python keeps beside it."""
    return [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
