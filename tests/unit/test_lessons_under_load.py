"""What the lessons on time state holds on a computer that has other things to do.

A lesson with a file tests/lesson04/holds.py is run beside two busy processes; the file's asserts are its last cell.
"""

import os
import subprocess
import sys

import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from tests.support.notebooks import ROOT
from tests.support.tiers import THOROUGH
from utils.common.files import python_path
from utils.common.notebook_format import nbformat
from utils.common.settings import WIDGETS

STATED = {path.parent.name.removeprefix("lesson"): path for path in sorted(ROOT.glob("tests/lesson*/holds.py"))}
# It ends by itself when the test is gone.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


@pytest.fixture
def load():
    """Two processes that compute for as long as the test runs."""
    processes = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    yield processes
    still_busy = [process.poll() is None for process in processes]
    for process in processes:
        process.kill()
        process.wait()
    assert all(still_busy), "there was no load"


TRIES = 3  # what the clock on the wall says may be spoilt by a pause of the whole machine, but not each time


@pytest.mark.slow
@THOROUGH  # nbval runs these lessons without a load
@pytest.mark.parametrize("number", STATED)
def test_what_a_lesson_states_holds_beside_a_load(number, load, tmp_path, monkeypatch):
    [path] = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    lesson = nbformat.read(path, as_version=4)
    lesson.cells.append(nbformat.v4.new_code_cell(STATED[number].read_text()))
    monkeypatch.setenv("PYTHONPATH", python_path(), prepend=os.pathsep)
    for left in reversed(range(TRIES)):
        # In a folder of its own: a lesson may write files beside itself.
        client = NotebookClient(lesson, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}})
        try:
            client.execute(env={**os.environ, WIDGETS: "0"})
            break
        except CellExecutionError:
            if not left:
                raise


def test_the_lessons_on_time_say_what_has_to_hold():
    assert "04" in STATED
