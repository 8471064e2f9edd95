"""Which of a student's processes are ended when they have too much together."""

import subprocess
import sys

import psutil
import pytest

from utils.hub import memory_guard
from utils.hub.memory_guard import pss_of, too_much

MIB = 2**20


@pytest.fixture
def processes(monkeypatch):
    """Stand-ins with these bytes."""

    class Stand:
        def __init__(self, pid):
            self.pid = pid

    def made(*sizes, at_most=None):
        found = [Stand(number) for number, _ in enumerate(sizes)]
        monkeypatch.setattr(memory_guard, "pss_of", lambda process: sizes[process.pid])
        monkeypatch.setattr(memory_guard, "_at_most", lambda process: (at_most or sizes)[process.pid])
        return found

    return made


@pytest.mark.parametrize(
    ("sizes", "ended"),
    [((1, 2), []), ((3, 0), []), ((1, 3), [1]), ((2, 2), [1]), ((1, 5, 4), [1, 2]), ((1, 1, 1, 1), [3])],
)
def test_the_largest_go_until_the_others_are_within(processes, sizes, ended):
    assert [process.pid for process, _ in too_much(processes(*sizes), 3)] == ended


def test_what_is_shared_with_the_class_does_not_count(processes):
    assert too_much(processes(1, 1, at_most=(400, 400)), 3) == []


def test_memory_is_what_a_process_took():
    hoard = "import sys; held = bytearray(b'1') * (64 * 2**20); print('up', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", hoard], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        assert 64 * MIB <= pss_of(psutil.Process(process.pid)) <= 100 * MIB
        process.stdin.close()
    assert pss_of(psutil.Process(1)) >= 0
