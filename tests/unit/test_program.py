"""A program that is run in a forked process does as one that Python starts."""

import signal
import subprocess
import sys

import pytest

from utils.processes.program import what_runs

FORKED = "import sys; from utils.processes.program import be_program; be_program(sys.argv[1:])"
PROGRAMS = {
    "its place": "import sys; print(sys.argv, __name__, __file__, sys.path[0])",
    "another module of its folder": "import beside; print(beside.found)",
    "ends by a number": "import sys; sys.exit(300)",
    "ends by a text": "import sys; print('out'); sys.exit('what went wrong')",
    "ends by itself": "import os; os._exit(4)",
    "an error": "def f():\n    1 / 0\n\nf()",
    "an error of its syntax": "print('a'\n1 +",
    "interrupted": "raise KeyboardInterrupt",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "functions at the end": "import atexit\nlast = 3\natexit.register(lambda: print('last', last))\nprint('first')",
    "a thread that outlives it": (
        "import threading, time\nsaid = 'thread'\n"
        "def late():\n    time.sleep(0.2)\n    print(said)\nthreading.Thread(target=late).start()"
    ),
    "a pickle of its own": (
        "import pickle\nclass Mine:\n    word = 'own'\nprint(pickle.loads(pickle.dumps(Mine())).word, Mine.__module__)"
    ),
    "what it reads": "print(input().upper())",
}


def ran(*command, folder):
    told = subprocess.run([sys.executable, *command], cwd=folder, input="read\n", capture_output=True, text=True)
    return told.returncode, told.stdout, told.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_as_pythons_own(name, tmp_path):
    (tmp_path / "beside.py").write_text("found = 'beside'")
    (tmp_path / "its program.py").write_text(PROGRAMS[name])
    how = ["-u", "its program.py", "--steps", "3"]
    by_python, forked = ran(*how, folder=tmp_path), ran("-c", FORKED, *how, folder=tmp_path)
    assert forked == by_python


def test_a_module_is_run_too(tmp_path):
    (tmp_path / "mine.py").write_text("import sys; print(sys.argv[1:], __name__, sys.path[0]); sys.exit(3)")
    how = ["-m", "mine", "a"]
    assert ran("-c", FORKED, *how, folder=tmp_path) == ran(*how, folder=tmp_path)


def test_a_program_that_is_not_there(tmp_path):
    assert ran("-c", FORKED, "none.py", folder=tmp_path) == ran("none.py", folder=tmp_path)


def test_an_interrupt_ends_it_by_that_signal(tmp_path):
    (tmp_path / "interrupted.py").write_text("raise KeyboardInterrupt")
    assert ran("-c", FORKED, "interrupted.py", folder=tmp_path)[0] == -signal.SIGINT


@pytest.mark.parametrize("arguments", [[], ["-"], ["-c", "1"], ["-m"], ["-u"], ["-X", "dev", "a.py"], ["--version"]])
def test_all_else_is_left_to_python(arguments):
    assert what_runs(arguments) == []
