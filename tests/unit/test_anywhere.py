"""The course in somebody else's notebook: the first cell, in folders as on Colab and Kaggle, and what it says."""

import os
import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest

from tests.support.notebooks import ROOT
from tests.support.tiers import THOROUGH
from utils.common.files import python_path
from utils.course import colab as anywhere
from utils.course.release import bundle

FIRST_CELL = (ROOT / "tools" / "first_cell.py").read_text()
AND_THEN = """
import os, subprocess, utils
print("found:", os.path.dirname(utils.__path__[0]))
print(subprocess.check_output([sys.executable, "-c", "import utils; print('child:', utils.__path__[0])"], text=True))
"""


@pytest.fixture(scope="module")
def course_zip(tmp_path_factory):
    out = tmp_path_factory.mktemp("bundle") / "course.zip"
    bundle(out)
    return out


def in_a_notebook(mounts, cwd, after=AND_THEN, cell=FIRST_CELL):
    """What the first cell prints on a machine with these folders (place, folder here, may it be written to)."""
    if not shutil.which("bwrap"):
        pytest.skip("needs bubblewrap, to lay out a machine's folders")
    command = ["bwrap", "--die-with-parent", "--dev", "/dev", "--proc", "/proc", "--unshare-net"]
    for name in sorted(os.listdir("/")):
        if name not in ("dev", "proc", "sys", "content", "kaggle"):
            link = os.path.islink(f"/{name}")
            command += (
                ["--symlink", os.readlink(f"/{name}"), f"/{name}"] if link else ["--ro-bind", f"/{name}", f"/{name}"]
            )
    for place, folder, writable in mounts:
        command += ["--bind" if writable else "--ro-bind", str(folder), place]
    command += ["--chdir", cwd, sys.executable, "-c", cell + after]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_on_colab_the_uploaded_zip_is_found(course_zip, tmp_path):
    shutil.copy(course_zip, tmp_path)
    said = in_a_notebook([("/content", tmp_path, True)], "/content")
    assert "The course is in /content/course.\n" in said
    assert "is kept. Go on with the next cell." in said
    assert "found: /content/course\n" in said
    assert "child: /content/course/utils\n" in said


@pytest.mark.parametrize("inside", [pytest.param("dataset", marks=THOROUGH), "datasets/somebody/name"])
def test_on_kaggle_an_attached_dataset_is_used_where_it_is(course_zip, tmp_path, inside):
    with zipfile.ZipFile(course_zip) as archive:
        archive.extractall(tmp_path / "input" / inside)
    (tmp_path / "working").mkdir()
    mounts = [("/kaggle/input", tmp_path / "input", False), ("/kaggle/working", tmp_path / "working", True)]
    then = AND_THEN + "from utils.observe.devices import devices\nfrom utils.exercises.check import checker\n"
    then += "devices(2)\nprint(checker('lab01', {})('ex3'))\n"
    said = in_a_notebook(mounts, "/kaggle/working", then)
    assert f"The course is in /kaggle/input/{inside}/course (read-only, which will do).\n" in said
    assert f"child: /kaggle/input/{inside}/course/utils\n" in said
    assert "relu1_computes_on is not defined" in said  # a lab checks from a folder that cannot be written to
    assert not list((tmp_path / "working").iterdir())


def test_with_nothing_there_it_says_what_to_upload(tmp_path):
    said = in_a_notebook([("/content", tmp_path, True)], "/content", after="")
    assert said.startswith("The course is not here. Upload course.zip beside this notebook")


def test_a_zip_of_something_else_is_left_alone(tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("photos/one.txt", "x")
    assert in_a_notebook([("/content", tmp_path, True)], "/content", after="").startswith("The course is not here")
    assert [path.name for path in tmp_path.iterdir()] == ["photos.zip"]


def test_in_the_course_itself_it_finds_the_course():
    code = FIRST_CELL + "print('found:', sys.path[0])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "notebooks", capture_output=True, text=True)
    assert done.stdout == f"found: {ROOT}\n", done.stderr


def test_the_page_about_colab_shows_this_very_cell():
    cells = nbformat.read(ROOT / "notebooks" / "00_start_here.ipynb", as_version=4).cells
    assert FIRST_CELL.strip() in "\n".join(cell.source for cell in cells)


# --- what is installed there ---------------------------------------------------------------------------------------


@pytest.fixture
def installed(monkeypatch):
    """Change what seems to be installed: a version, or None for nothing."""
    changed, really = {}, anywhere.version

    def version(name):
        if changed.get(name, "") is None:
            raise anywhere.PackageNotFoundError(name)
        return changed.get(name) or really(name)

    monkeypatch.setattr(anywhere, "version", version)
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    return changed


def test_what_is_there_is_kept(installed, monkeypatch, capsys):
    installed.update({"torch": "2.11.0+cu128", "torchvision": "0.26.0+cu128", "ipywidgets": "7.7.1"})
    monkeypatch.setattr(anywhere, "install", lambda wanted: pytest.fail(f"installs {wanted}"))
    anywhere.set_up()
    assert capsys.readouterr().out.endswith("PyTorch 2.11.0+cu128 is kept. Go on with the next cell.\n")
    assert os.environ["PYTHONPATH"] == python_path(["/somewhere"])
    anywhere.set_up()  # once is enough
    assert os.environ["PYTHONPATH"] == python_path(["/somewhere"])


def test_what_is_missing_is_installed_but_never_pytorch(installed, monkeypatch, capsys):
    installed.update({"torch": None, "anywidget": None, "cloudpickle": None})
    wanted = []
    monkeypatch.setattr(anywhere, "install", wanted.extend)
    anywhere.set_up()
    said = capsys.readouterr().out
    assert wanted == ["anywidget", "cloudpickle"]
    assert "The course needs torch >=2.11, and there is none here." in said
    assert "%pip install -q -U torch torchvision" in said
    assert "is kept" not in said


def test_a_pytorch_that_is_too_old_is_told_with_what_to_do(installed, capsys):
    installed["torch"] = "2.9.1+cu126"
    anywhere.set_up()
    said = capsys.readouterr().out
    assert "The course needs torch >=2.11, and this is 2.9.1+cu126." in said
    assert "restart the session" in said
    assert "is kept" not in said


def test_another_package_that_is_too_old_is_no_obstacle(installed, capsys):
    installed["ipywidgets"] = "7.6.0"
    anywhere.set_up()
    said = capsys.readouterr().out
    assert "%pip install -U ipywidgets" in said
    assert said.endswith("is kept. Go on with the next cell.\n")


def test_without_a_network_it_says_so_and_goes_on(monkeypatch, capsys):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    anywhere.install(["no-package-of-this-name-anywhere"])
    assert "That did not work: is there a network?" in capsys.readouterr().out
