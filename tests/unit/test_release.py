"""Labs are what their sources give, hold no answer, and the zip for students holds nothing that is not theirs."""

import posixpath
import re
import shutil
import tomllib
import zipfile
from pathlib import PurePosixPath

import nbformat
import pytest

from tests.support.notebooks import LABS, ROOT, grade_id, run_here, source_of
from tests.support.tiers import THOROUGH
from utils.common.errors import Problem
from utils.common.settings import GRADING
from utils.course.release import (
    BEGIN_SOLUTION,
    answers,
    bundle,
    lab_path,
    leaked,
    pack,
    release,
    student_notebook,
    tracked,
)
from utils.exercises.facts import LocalStudent, judge, lab_sources, load_lab

IS_FOR_LEARNING = (
    "course: this copy of the course is for learning: labs are released and graded in one with solutions/\n"
)


def test_there_are_labs():
    assert LABS[0] == "lab01"


@pytest.mark.parametrize("lab", LABS)
def test_the_lab_is_what_its_source_gives(lab):
    path = lab_path(source_of(lab))
    assert path.exists(), f"run: course release {lab}"
    assert path.read_text() == nbformat.writes(student_notebook(source_of(lab))) + "\n", f"run: course release {lab}"


@pytest.mark.parametrize("lab", LABS)
def test_the_lab_holds_no_answer(lab):
    text = lab_path(source_of(lab)).read_text()
    assert "### " not in text.replace("## ", "")
    assert len(answers(source_of(lab))) >= len(load_lab(lab).exercises)
    assert not leaked(source_of(lab), nbformat.read(lab_path(source_of(lab)), as_version=4))


@pytest.mark.parametrize("lab", LABS)
def test_the_unsolved_lab_passes_no_exercise(lab):
    namespace = run_here(nbformat.read(lab_path(source_of(lab)), as_version=4))
    student = LocalStudent(namespace, ["simgpu:0", "simgpu:1"])
    passed = [e.name for e in load_lab(lab).exercises.values() if all(f.holds for f in judge(e, student))]
    assert not passed


@pytest.mark.parametrize("lab", LABS)
def test_the_source_is_an_nbgrader_notebook_with_ten_points(lab):
    notebook = nbformat.read(source_of(lab), as_version=4)
    nbformat.validate(notebook)
    exercises = load_lab(lab).exercises
    marked = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    in_words = [cell for cell in marked if grade_id(cell) == "words"]
    assert all(cell.cell_type == "markdown" and not cell.metadata.nbgrader.points for cell in in_words)
    ids = [grade_id(cell) for cell in marked]
    assert len(set(ids)) == len(ids)
    for cell in marked:
        meta = cell.metadata.nbgrader
        assert meta.schema_version == 3
        assert not meta.task
        assert meta.locked == (not meta.solution)
        assert (BEGIN_SOLUTION in cell.source) == (meta.solution and cell not in in_words), grade_id(cell)
    marked = [cell for cell in marked if cell not in in_words]
    points = {grade_id(cell): cell.metadata.nbgrader.points for cell in marked if cell.metadata.nbgrader.grade}
    assert points == {f"{name}-check": exercise.points for name, exercise in exercises.items()}
    assert sum(points.values()) == (20 if lab == "lab19" else 10)  # the capstone counts for two
    assert {grade_id(cell) for cell in marked if cell.metadata.nbgrader.solution} == set(exercises)
    assert 3 <= len(exercises) <= 6
    assert all(len(exercise.hints) >= 2 for exercise in exercises.values())


@pytest.mark.parametrize("lab", LABS)
def test_an_exercise_is_called_the_same_in_the_notebook_and_by_check(lab):
    text = "\n".join(cell.source for cell in nbformat.read(source_of(lab), as_version=4).cells)
    told = re.findall(r"^## Exercise (\d): (.*) \((star|\d points?), level", text, re.MULTILINE)
    assert told == [(name[2:], one.title, gives(one)) for name, one in load_lab(lab).exercises.items()]


def gives(exercise):
    return "star" if exercise.star else f"{exercise.points} point{'s' if exercise.points > 1 else ''}"


@pytest.mark.parametrize("lab", LABS)
def test_hints_give_no_answer_away(lab):
    hints = [hint for exercise in load_lab(lab).exercises.values() for hint in exercise.hints]
    given = [(line, hint) for line in answers(source_of(lab)) for hint in hints if len(line) > 8 and line in hint]
    assert not given


def folders(tmp_path):
    """A copy of what `release` reads and writes, so that a test can break it."""
    for name in ("solutions", "labs"):
        shutil.copytree(ROOT / name, tmp_path / name)
    return tmp_path


def edit(path, change):
    notebook = nbformat.read(path, as_version=4)
    change(notebook)
    path.write_text(nbformat.writes(notebook))


def test_release_writes_what_is_named(tmp_path):
    root = folders(tmp_path)
    shutil.rmtree(root / "labs")
    assert release(["lab01"], root) == [root / "labs/lab01/lab01_split_a_model.ipynb"]
    assert (root / "labs/lab01/lab01_split_a_model.ipynb").read_text() == lab_path(source_of("lab01")).read_text()
    with pytest.raises(Problem, match=r"no lab called lab77\. There is: lab01"):
        release(["lab77"], root)


def test_release_never_writes_over_answers(tmp_path):
    root = folders(tmp_path)
    lab = root / "labs/lab01/lab01_split_a_model.ipynb"
    shutil.copy(source_of("lab01"), lab)
    before = lab.read_bytes()
    with pytest.raises(Problem, match=r"lab01_split_a_model\.ipynb has answers in it\. Move it away first"):
        release(root=root)
    assert lab.read_bytes() == before


@pytest.mark.parametrize("lab", LABS)
def test_a_lab_that_is_as_it_was_written_is_written_again(tmp_path, lab):
    root = folders(tmp_path)
    path = root / lab_path(source_of(lab)).relative_to(ROOT)
    before = path.read_bytes()
    assert release([lab], root) == [path]
    assert path.read_bytes() == before


def test_an_answer_outside_its_markers_stops_the_release(tmp_path):
    root = folders(tmp_path)
    source = lab_sources(["lab01"], root)[0]
    before = (root / "labs/lab01/lab01_split_a_model.ipynb").read_bytes()
    edit(source, lambda n: n.cells.append(nbformat.v4.new_markdown_cell(answers(source)[0])))
    with pytest.raises(Problem, match="this answer also stands outside its markers: layer1 ="):
        release(root=root)
    assert (root / "labs/lab01/lab01_split_a_model.ipynb").read_bytes() == before


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("### BEGIN SOLUTION\nx = 1", "cell 1: ### BEGIN SOLUTION without ### END SOLUTION"),
        ("x = 1\n### END SOLUTION", "cell 1: ### END SOLUTION without ### BEGIN SOLUTION"),
        ("### BEGIN SOLUTION\n### BEGIN SOLUTION\n### END SOLUTION", "### BEGIN SOLUTION twice"),
        ("### BEGIN HIDDEN TESTS", "### BEGIN HIDDEN TESTS without"),
    ],
)
def test_a_marker_without_its_partner_names_the_cell(tmp_path, source, says):
    path = tmp_path / "broken.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    with pytest.raises(Problem, match=says):
        student_notebook(path)


def a_cell(name):
    return nbformat.v4.new_code_cell("x = 1", metadata={"nbgrader": {"solution": True, "grade_id": name}})


def test_a_cell_for_an_answer_without_markers_is_not_released(tmp_path):
    path = tmp_path / "open.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[a_cell("ex6")]), path)
    with pytest.raises(Problem, match=r"open.ipynb, cell 1 \(ex6\) is for an answer, and has no ### BEGIN SOLUTION"):
        student_notebook(path)


def test_two_cells_of_one_name_are_told(tmp_path):
    cells = [a_cell("ex5"), a_cell("ex5")]
    for cell in cells:
        cell.source = "### BEGIN SOLUTION\nx = 1\n### END SOLUTION"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "twice.ipynb")
    with pytest.raises(Problem, match=r"twice.ipynb, cell 2 \(ex5\): another cell has this grade_id, too"):
        student_notebook(tmp_path / "twice.ipynb")


def test_the_stub_is_indented_as_the_answer_was(tmp_path):
    path = tmp_path / "one.ipynb"
    source = "def f():\n    ### BEGIN SOLUTION\n    return 1\n    ### END SOLUTION\n\n\nf()"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), path)
    released = student_notebook(path).cells[0].source
    assert released == "def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()\n\n\nf()"


# --- the zip ------------------------------------------------------------------------------------------------


def test_the_bundle_is_complete_and_holds_nothing_secret(tmp_path):
    out = tmp_path / "new" / "course.zip"
    count = bundle(out)
    with zipfile.ZipFile(out) as archive:
        names = archive.namelist()
        texts = {name: archive.read(name).decode("utf-8", "replace") for name in names}
    assert count == len(names) == len(set(names))
    for wanted in ("README.md", "Makefile", "constraints.txt", "environment.yml", "utils/exercises/check.py"):
        assert f"course/{wanted}" in names
    assert "course/labs/lab01/lab01_split_a_model.ipynb" in names
    assert "course/notebooks/figures/split_model.svg" in names
    assert "course/labs/lab01/facts.py" in names
    assert not [name for name in names if "solutions/" in name or "hidden" in name or "__pycache__" in name]
    data = "course/utils/simgpu/benchmarks/data"  # docs/times.md says in README.md where its data are from
    opened = "traces/a100_rank3_of_8_one_step.json.gz"  # by lesson 18
    assert sorted(name for name in names if "/benchmarks/" in name) == [f"{data}/README.md", f"{data}/{opened}"]
    hidden_claims = {f.claim for e in load_lab("lab01", hidden=True).exercises.values() for f in e.facts} - {
        f.claim for e in load_lab("lab01").exercises.values() for f in e.facts
    }
    assert hidden_claims
    for name, text in texts.items():
        assert not [claim for claim in hidden_claims if claim in text], name
        if name.endswith(".ipynb"):
            assert BEGIN_SOLUTION not in text, name
            assert not [cell for cell in nbformat.reads(text, 4).cells if cell.get("outputs")], name


def test_the_pages_of_the_bundle_say_nothing_of_what_is_only_in_the_repository(tmp_path):
    pages = ("README.md", "docs/course.md")
    bundle(tmp_path / "course.zip")
    with zipfile.ZipFile(tmp_path / "course.zip") as archive:
        readme, course = texts = [archive.read(f"course/{page}").decode() for page in pages]
    both, here = "".join(texts), "".join((ROOT / page).read_text() for page in pages)
    for only_there in ("make test", "course grade", "instructors.md", "CONTRIBUTING", "look in `solutions/`"):
        assert only_there in here
        assert only_there not in both
    for kept in ("make lab", "## Who it is for", "MIT licence", "## Take it as a student", "## Lessons and labs"):
        assert kept in both
    assert "<!-- " not in both
    steps = [line for line in course.splitlines() if re.search(r"\b\d\. ", line)]
    assert [line[:3] for line in steps] == ["1. ", "2. ", "3. ", "4. ", "5. "], "a list of lines of its own"
    assert not re.search(r"[^\n]\n## | \n", readme + course)


def test_what_the_bundle_links_to_is_in_it(tmp_path):
    bundle(tmp_path / "course.zip")
    with zipfile.ZipFile(tmp_path / "course.zip") as archive:
        names = archive.namelist()
        texts = {name: archive.read(name).decode() for name in names if name.endswith(".md")}
        for name in (name for name in names if name.endswith(".ipynb")):
            cells = nbformat.reads(archive.read(name).decode(), as_version=4).cells
            texts[name] = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert "course/docs/instructors.md" not in texts, "it speaks of solutions, and of what the grader does not hold off"
    there = {*names, *(str(folder) for name in names for folder in PurePosixPath(name).parents)}
    links = [(name, link) for name, text in texts.items() for link in re.findall(r"\]\(([^)#\s]+)", text)]
    here = [(name, link) for name, link in links if "://" not in link]
    dead = [one for one in here if posixpath.normpath(posixpath.join(posixpath.dirname(one[0]), one[1])) not in there]
    assert len(here) > 20
    assert not dead


def test_what_a_lesson_writes_for_perfetto_is_not_in_the_bundle(tmp_path):
    root = folders(tmp_path)
    (root / "notebooks").mkdir()
    (root / "notebooks" / "trace.json").write_text("{}")
    bundle(tmp_path / "course.zip", root)
    with zipfile.ZipFile(tmp_path / "course.zip") as archive:
        assert not [name for name in archive.namelist() if name.endswith("trace.json")]


def test_the_bundle_is_the_same_every_time(tmp_path):
    bundle(tmp_path / "a.zip")
    bundle(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_the_files_of_the_bundle_are_as_old_as_the_course(tmp_path, monkeypatch):
    root = folders(tmp_path)
    bundle(tmp_path / "nowhere.zip", root)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1750000000")
    bundle(tmp_path / "dated.zip", root)
    dates = {}
    for name in ("nowhere", "dated"):
        with zipfile.ZipFile(tmp_path / f"{name}.zip") as archive:
            dates[name] = {entry.date_time for entry in archive.infolist()}
    assert dates == {"nowhere": {(1980, 1, 1, 0, 0, 0)}, "dated": {(2025, 6, 15, 15, 6, 40)}}


def test_one_command_makes_both_zips(tmp_path):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    (students, few), (instructors, many) = pack(tmp_path)
    assert [path.name for path in (students, instructors)] == [
        f"course-{version}-students.zip",
        f"course-{version}-instructors.zip",
    ]
    bundle(tmp_path / "bundle.zip")
    assert students.read_bytes() == (tmp_path / "bundle.zip").read_bytes()
    with zipfile.ZipFile(instructors) as archive:
        names = set(archive.namelist())
        assert archive.testzip() is None
        assert archive.getinfo("course/.ci/run").external_attr >> 16 & 0o100
    assert few < many == len(names)
    assert names == {f"course/{path.relative_to(ROOT)}" for path in tracked()}
    assert {"course/solutions/lab01/hidden.py", "course/.devcontainer/devcontainer.json"} < names
    assert not [name for name in names if "__pycache__" in name or ".venv" in name]


def test_without_a_repository_no_zip_is_made(tmp_path):
    root = folders(tmp_path / "course")
    shutil.copy(ROOT / "pyproject.toml", root)
    with pytest.raises(Problem, match="are made in a clone of the course's repository"):
        pack(tmp_path / "dist", root)
    assert not (tmp_path / "dist").exists()


def test_a_lab_that_was_edited_by_hand_stops_the_bundle(tmp_path):
    root = folders(tmp_path)
    edit(root / "labs/lab01/lab01_split_a_model.ipynb", lambda n: n.cells.pop())
    with pytest.raises(Problem, match="is not what its source gives: run 'course release' first"):
        bundle(tmp_path / "out.zip", root)
    assert not list(tmp_path.glob("*.zip"))


def test_a_solution_among_the_lessons_stops_the_bundle(tmp_path):
    root = folders(tmp_path)
    (root / "notebooks").mkdir()
    shutil.copy(source_of("lab01"), root / "notebooks" / "extra.ipynb")
    with pytest.raises(Problem, match=r"extra\.ipynb must not go to students"):
        bundle(tmp_path / "out.zip", root)
    assert not list(tmp_path.glob("*.zip"))
    assert not list(tmp_path.glob(".bundle*"))


@THOROUGH  # a cheaper one: what is in it, above
@pytest.mark.slow
def test_the_bundle_is_enough_to_check_and_too_little_to_grade(tmp_path):
    """In the unpacked zip a learner can check; `course grade` says in one line that it needs the full course."""
    import subprocess
    import sys

    bundle(tmp_path / "course.zip")
    with zipfile.ZipFile(tmp_path / "course.zip") as archive:
        archive.extractall(tmp_path)
    code = "from utils.exercises.check import checker; print(checker('lab01', {})('ex3'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "course", capture_output=True, text=True)
    assert "relu1_computes_on is not defined" in done.stdout, done.stderr
    grade = [sys.executable, "-m", "utils.course", "grade", "lab01", ".", "--out", str(tmp_path / "out")]
    done = subprocess.run(grade, cwd=tmp_path / "course", capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == IS_FOR_LEARNING
    assert not (tmp_path / "out").exists()
    # A zip from here would have the learner's own answers in it.
    pack_it = [sys.executable, "-m", "utils.course", "release", "--bundle", str(tmp_path / "own.zip")]
    done = subprocess.run(pack_it, cwd=tmp_path / "course", capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, IS_FOR_LEARNING)
    assert not (tmp_path / "own.zip").exists()
    done = subprocess.run(["make", "labs"], cwd=tmp_path / "course", capture_output=True, text=True)
    assert done.returncode == 2
    assert "this copy of the course is for learning" in done.stderr


def test_while_testing_the_grader_is_off(monkeypatch):
    monkeypatch.delenv(GRADING, raising=False)
    run_here(nbformat.v4.new_notebook())
    import os

    assert GRADING not in os.environ
