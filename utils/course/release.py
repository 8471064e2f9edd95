"""From the source of a lab to what students get: the notebook without its answers, and the zip around it.

The source, `solutions/lab01/lab01_split_a_model.ipynb`, has nbgrader's cell metadata and markers, in
nbgrader's folder shape, so that its own tools can read it too.
"""

from __future__ import annotations

import copy
import os
import re
import subprocess
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT
from utils.common.notebook_format import nbformat
from utils.exercises.facts import lab_sources

BEGIN_SOLUTION, END_SOLUTION = "### BEGIN SOLUTION", "### END SOLUTION"
BEGIN_HIDDEN, END_HIDDEN = "### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS"
# What stands in place of an answer: nbgrader's own words, so that both tools generate the same notebook.
STUB = ["# YOUR CODE HERE", "raise NotImplementedError()"]
# What a student gets: folders and files of the course, nothing else of it.
BUNDLED = (
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "CITATION.cff",
    ".devcontainer",
    ".vscode",
    "Makefile",
    "pyproject.toml",
    "constraints.txt",
    "environment.yml",
    "docs/course.md",
    "docs/glossary.md",
    "docs/one_page.md",
    "docs/images",
    "docs/observe.md",
    "docs/planner.md",
    "docs/programs.md",
    "docs/schedules.md",
    "docs/simgpu.md",
    "docs/times.md",
    "docs/environments.md",
    "tools",
    "notebooks",
    "labs",
    "utils",
    "utils/simgpu/benchmarks/data/README.md",
    "utils/simgpu/benchmarks/data/traces/a100_rank3_of_8_one_step.json.gz",  # lesson 18 opens it
)
SECRET = ("solutions", "tests")  # no file in here is for students
NEVER_BUNDLED = ("__pycache__", ".ipynb_checkpoints", ".egg-info", "build", "tests", "benchmarks")
# What a text says of the repository alone, which students do not have, stands between these.
ONLY_HERE = re.compile(
    r"^<!-- repository -->\n.*?<!-- end -->\n| ?<!-- repository -->.*?<!-- end -->", re.DOTALL | re.MULTILINE
)
LEFT_BY_A_RUN = "notebooks/*.json"  # what a lesson writes for Perfetto: each learner makes their own
EARLIEST = 315532800  # 1980: no file in a zip is older


def lab_path(source: Path, root: Path = ROOT) -> Path:
    """Where the student's notebook of a source goes."""
    return root / "labs" / source.relative_to(root / "solutions")


def student_notebook(source: Path) -> nbformat.NotebookNode:
    """The student's version of a lab: answers replaced by a stub, hidden tests and outputs removed.

    Raises Problem for a marker without its partner, naming the cell.
    """
    notebook = copy.deepcopy(nbformat.read(source, as_version=4))
    names: set[str] = set()
    for number, cell in enumerate(notebook.cells, 1):
        about = cell.metadata.get("nbgrader", {})
        name = about.get("grade_id", "")
        where = f"{source.name}, cell {number}" + (f" ({name})" if name else "")
        if name and name in names:
            raise Problem(f"{where}: another cell has this grade_id, too. Change it in the cell's metadata")
        names.add(name)
        if cell.cell_type == "code" and about.get("solution") and BEGIN_SOLUTION not in cell.source:
            raise Problem(f"{where} is for an answer, and has no {BEGIN_SOLUTION}: its answer would be released")
        lines = _without(cell.source.split("\n"), BEGIN_HIDDEN, END_HIDDEN, [], where)
        cell.source = "\n".join(_without(lines, BEGIN_SOLUTION, END_SOLUTION, STUB, where))
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            cell.metadata.pop("execution", None)  # when somebody ran it
    return notebook


def _without(lines: list[str], begin: str, end: str, instead: list[str], where: str) -> list[str]:
    """`lines` with every marked region replaced by `instead`, indented as its marker is."""
    kept, opened = [], False
    for line in lines:
        if line.strip() == begin:
            if opened:
                raise Problem(f"{where}: {begin} twice, without {end} between")
            opened = True
            indent = line[: len(line) - len(line.lstrip())]
            kept += [indent + text for text in instead]
        elif line.strip() == end:
            if not opened:
                raise Problem(f"{where}: {end} without {begin}")
            opened = False
        elif not opened:
            kept.append(line)
    if opened:
        raise Problem(f"{where}: {begin} without {end}")
    return kept


def answers(source: Path) -> list[str]:
    """Every line that a student has to find: what stands between the solution markers of a source."""
    found, inside = [], False
    for cell in nbformat.read(source, as_version=4).cells:
        for line in cell.source.split("\n"):
            if line.strip() == BEGIN_SOLUTION:
                inside = True
            elif line.strip() == END_SOLUTION:
                inside = False
            elif inside and line.strip():
                found.append(line.strip())
    return found


def leaked(source: Path, notebook: nbformat.NotebookNode) -> list[str]:
    """The answers of `source` that can be read in the cells of `notebook`."""
    seen = {line.strip() for cell in notebook.cells for line in cell.source.split("\n")}
    return [line for line in answers(source) if line in seen]


def release(names: Sequence[str] = (), root: Path = ROOT) -> list[Path]:
    """Write the student's notebook of each lab named, or of all. Returns what was written.

    Raises Problem, and writes nothing, for a source that is broken, for a notebook that would hold an answer,
    and where somebody has written answers into the notebook that would be overwritten.
    """
    made = {}
    for source in lab_sources(names, root):
        made[lab_path(source, root)] = notebook = student_notebook(source)
        if leaks := leaked(source, notebook):
            raise Problem(f"{source.name}: this answer also stands outside its markers: {leaks[0]}")
    for path, notebook in made.items():
        if path.exists() and _has_answers(path, notebook):
            raise Problem(f"{path.relative_to(root)} has answers in it. Move it away first: it would be overwritten")
    for path, notebook in made.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    return list(made)


def _has_answers(path: Path, untouched: nbformat.NotebookNode) -> bool:
    """Whether somebody has solved an exercise of a lab in this very file."""
    as_given = {cell.source for cell in untouched.cells}
    cells = nbformat.read(path, as_version=4).cells
    solutions = [cell.source for cell in cells if cell.metadata.get("nbgrader", {}).get("solution")]
    return any(STUB[-1] not in source and source not in as_given for source in solutions)


def bundle(out: Path, root: Path = ROOT) -> int:
    """Write the zip that students get, and return the number of files in it.

    Raises Problem, and writes nothing, where it would hold a solution, a hidden test, or a lab that is not
    what its source gives.
    """
    for source in lab_sources(root=root):
        path = lab_path(source, root)
        if not path.exists() or nbformat.read(path, as_version=4) != student_notebook(source):
            raise Problem(f"{path.relative_to(root)} is not what its source gives: run 'course release' first")
    files = [path for name in BUNDLED for place in sorted(root.glob(name)) for path in _files(place)]
    files = [path for path in files if not path.relative_to(root).match(LEFT_BY_A_RUN)]
    for path in files:
        if secret := _secret(path, root):
            raise Problem(f"{path.relative_to(root)} must not go to students: {secret}")
    _write_zip(out, {path: _for_students(path) for path in files}, root)
    return len(files)


def pack(folder: Path, root: Path = ROOT) -> list[tuple[Path, int]]:
    """Write the zip for students and the one for instructors. Returns them, each with the number of its files.

    Instructors get what is in the repository. Raises Problem as `bundle` does, and where this is none.
    """
    release = course_version(root)
    students, instructors = (folder / f"course-{release}-{who}.zip" for who in ("students", "instructors"))
    files = tracked(root)
    count = bundle(students, root)
    _write_zip(instructors, {path: path.read_bytes() for path in files}, root)
    return [(students, count), (instructors, len(files))]


def course_version(root: Path = ROOT) -> str:
    """The version of the course, as it stands in pyproject.toml."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]


def tracked(root: Path = ROOT) -> list[Path]:
    """The files of the repository, and nothing that a run has left. Raises Problem where there is no repository."""
    try:
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise Problem(
            "the zips are made in a clone of the course's repository: there is no git, or none of it here"
        ) from None
    return [path for name in listed.stdout.split("\0") if name and (path := root / name).is_file()]


def _write_zip(out: Path, contents: dict[Path, bytes], root: Path) -> None:
    """Write files into a zip below the folder `course`, whole or not at all; the same files give the same bytes."""
    out.parent.mkdir(parents=True, exist_ok=True)
    descriptor, beside = tempfile.mkstemp(dir=out.parent, prefix=".bundle-")
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            date = time.gmtime(max(_date(root), EARLIEST))[:6]
            for path, content in contents.items():
                entry = zipfile.ZipInfo(f"course/{path.relative_to(root).as_posix()}", date)
                entry.external_attr = (0o100755 if path.stat().st_mode & 0o100 else 0o100644) << 16
                archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
        os.chmod(beside, 0o644)
        os.replace(beside, out)
    except BaseException:
        os.unlink(beside)
        raise


def _date(root: Path) -> int:
    """When the course was last changed, as the date of all its files: the same course gives the same bytes."""
    if said := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(said)
    asked = ["git", "-C", str(root), "log", "-1", "--format=%ct"]
    try:
        return int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):  # no git, or none of it here
        return EARLIEST


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(p for p in path.rglob("*") if p.is_file())
    return [p for p in found if not any(part.endswith(NEVER_BUNDLED) for part in p.parts)]


def _for_students(path: Path) -> bytes:
    """A file as it goes into the zip: notebooks without outputs, which would answer what a lesson asks.

    Texts go without what they say of the repository alone.
    """
    if path.suffix == ".md":
        return ONLY_HERE.sub("", path.read_text(encoding="utf-8")).encode()
    if path.suffix != ".ipynb":
        return path.read_bytes()
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return (nbformat.writes(notebook) + "\n").encode()


def _secret(path: Path, root: Path) -> str:
    """Why a file is not for students, or nothing."""
    parts = path.relative_to(root).parts
    if parts[0] in SECRET:
        return f"it is in {parts[0]}/"
    if path.suffix == ".ipynb" and re.search(f"{BEGIN_SOLUTION}|{BEGIN_HIDDEN}", path.read_text(encoding="utf-8")):
        return "it has a marked solution or hidden test in it"
    return ""
