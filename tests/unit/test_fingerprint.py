"""What judges a class again: a change to what a grade depends on, and no other."""

import shutil

import pytest

from tests.support.notebooks import LABS, ROOT
from utils.grading.fingerprint import digest_of, fingerprint, followed, judging_files
from utils.grading.run.kernel import Limits
from utils.grading.run.submissions import Submission


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    """A copy of what belongs to lab01."""
    root = tmp_path_factory.mktemp("course")
    for folder in ("utils", "labs/lab01", "solutions/lab01"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.fixture(scope="module")
def files():
    """What a grade in lab01 depends on, by name."""
    return {path.relative_to(ROOT).as_posix() for path in judging_files("lab01")}


def digest(root):
    return digest_of(judging_files("lab01", root), root)


def changed(root, name, text):
    """The digest where this stands at the end of a file, which is put back."""
    path = root / name
    before = path.read_bytes()
    path.write_bytes(before + text.encode())
    try:
        return digest(root)
    finally:
        path.write_bytes(before)


def test_code_that_judges_counts_and_remarks_and_other_code_do_not(course):
    before = digest(course)
    for name in ("solutions/lab01/hidden.py", "utils/grading/run/observer.py"):
        assert changed(course, name, "\nONE_MORE = 1\n") != before
        assert changed(course, name, "\n# One more remark.\n") == before
    assert changed(course, "utils/course/cli.py", "\nONE_MORE = 1\n") == before


@pytest.mark.parametrize(
    "name",
    [
        *("labs/lab01/facts.py", "solutions/lab01/hidden.py"),
        *(
            "utils/exercises/facts/probes.py",
            "utils/exercises/facts/judge.py",
            "utils/exercises/facts/errors.py",
            "utils/exercises/facts/wire.py",
        ),
        "utils/exercises/facts/looks.py",
        *("utils/grading/grade.py", "utils/grading/run/kernel.py", "utils/grading/run/observer.py"),
        *("utils/grading/run/sandbox.py", "utils/grading/run/system_calls.py", "utils/grading/run/isolation.py"),
        *(
            "utils/simgpu/src/simgpu/tensor.py",
            "utils/simgpu/src/simgpu/profiles.py",
            "utils/simgpu/src/simgpu/environment.py",
        ),
        *(
            "utils/exercises/check.py",
            "utils/observe/devices.py",
            "utils/observe/trace/recording.py",
            "utils/kits/mailbox.py",
        ),
    ],
)
def test_what_judges_counts(files, name):
    assert name in files


@pytest.mark.parametrize(
    "name",
    [
        *(
            "utils/course/cli.py",
            "utils/course/doctor.py",
            "utils/exercises/tasks/lesson01/worked.py",
            "utils/widgets/game/board.py",
        ),
        *("utils/grading/folder.py", "utils/grading/classroom.py", "utils/grading/tell/feedback.py"),
        *("utils/grading/tell/templates/class.html", "utils/planner/planning.py", "utils/planner/layouts.py"),
    ],
)
def test_what_only_tells_or_belongs_to_other_labs_does_not(files, name):
    assert (ROOT / name).is_file()
    assert name not in files


def test_a_new_file_of_what_judges_counts(course):
    before = digest(course)
    new = course / "utils" / "simgpu" / "src" / "simgpu" / "new_rule.json"
    new.write_text("{}")
    assert digest(course) != before
    new.unlink()
    assert digest(course) == before


def test_a_labs_own_helpers_count_for_that_lab():
    names = {path.relative_to(ROOT).as_posix() for path in judging_files("lab19")}
    assert {"utils/kits/two_nodes.py", "utils/kits/ranks_in_turns.py", "utils/models/decoder.py"} <= names


def test_imports_are_followed_however_they_are_written(tmp_path):
    (tmp_path / "utils" / "deep").mkdir(parents=True)
    for name, text in {
        "utils/__init__.py": "",
        "utils/a.py": "def f():\n    from . import b\n",
        "utils/b.py": "from utils.deep.c import x as y\n",
        "utils/deep/__init__.py": "from .d import z\n",
        "utils/deep/c.py": "LATER = 'utils.e'\n",
        "utils/deep/d.py": "from .. import f\n",
        "utils/e.py": "import utils.a\nimport os, json\n",
        "utils/f.py": "",
        "utils/g.py": "import utils.a\n",
    }.items():
        (tmp_path / name).write_text(text)
    found = {path.relative_to(tmp_path / "utils").as_posix() for path in followed(["utils.a"], tmp_path)}
    assert found == {"__init__.py", "a.py", "b.py", "deep/__init__.py", "deep/c.py", "deep/d.py", "e.py", "f.py"}


@pytest.mark.parametrize("lab", LABS)
def test_each_lab_has_its_facts_and_no_page_in_its_fingerprint(lab):
    names = {path.relative_to(ROOT).as_posix() for path in judging_files(lab)}
    assert {f"labs/{lab}/facts.py", f"solutions/{lab}/hidden.py", "utils/exercises/facts/probes.py"} <= names
    assert not [name for name in names if name.startswith(("utils/course/", "utils/grading/tell/"))]


def test_the_fingerprint_of_a_submission(tmp_path):
    path = tmp_path / "ann.ipynb"
    path.write_text('"from utils import planner\\n"')
    ann = Submission("ann", path, id="1")
    one = fingerprint(ann, "lab01", Limits())
    assert one == fingerprint(ann, "lab01", Limits())
    assert one != fingerprint(ann, "lab02", Limits())
    assert one != fingerprint(ann, "lab01", Limits(cell=1))
    assert one != fingerprint(Submission("ann", path, id="2"), "lab01", Limits())
    path.write_text('"from utils.observe import plots\\n"')
    assert one != fingerprint(ann, "lab01", Limits())
