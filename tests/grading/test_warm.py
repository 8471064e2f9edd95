"""Kernels that are forked from a fork server: the same as fresh ones, and nothing is lost where that process is."""

import ast
import re
import signal
import sys
from pathlib import Path

import nbformat
import psutil
import pytest

from tests.support.a_class import make_class
from tests.support.notebooks import notebook_with
from tests.support.tiers import THOROUGH
from utils.exercises.facts import load_lab
from utils.grading.grade import grade_submission
from utils.grading.run import kernel, places, provisioner, sandbox
from utils.grading.run.kernel import Limits
from utils.grading.run.kernel_student import KernelStudent
from utils.grading.run.submissions import Submission
from utils.processes.forking import ForkServerEnded

pytestmark = [
    pytest.mark.xdist_group("warm"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="kernels are forked on Linux only"),
]

# What a process finds around itself: what a grade could depend on, and what a submission could use.
SNAPSHOT = """
import gc, os, resource, signal, socket, sys, warnings
import matplotlib
import torch
import simgpu

home = os.environ["HOME"]
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
mounts = {line.split()[1] for line in open("/proc/self/mounts")}
found = {
    "simulated": [simgpu.describe(), simgpu.now(), len(simgpu.log())],
    "torch": [torch.get_num_threads(), str(torch.get_default_dtype()), torch.is_grad_enabled()],
    "modules": sorted(sys.modules),
    "environment": dict(os.environ),
    "python": [sys.path, sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold()],
    "warnings": [str(each) for each in warnings.filters],
    "pictures": matplotlib.get_backend(),
    "folder": os.getcwd(),
    "files": {folder: sorted(os.listdir(folder)) for folder in ("/", home, "/dev/shm", "/tmp")},
    "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits},
    "user": [os.getuid(), os.getgid(), os.getgroups(), socket.gethostname()],
    "privileges": {name: status[name].strip() for name in status if name.startswith(("Cap", "NoNew", "Seccomp"))},
    "signals": [str(signal.getsignal(name)) for name in (signal.SIGINT, signal.SIGCHLD, signal.SIGTERM)],
    "open": [os.readlink(f"/proc/self/fd/{number}") for number in range(3)],
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "writable": sorted(place for place in mounts if os.path.exists(place) and os.access(place, os.W_OK)),
}
numbers = [__import__("numpy").random.rand(), __import__("random").random()]
numbers += [torch.rand(1, device=device).item() for device in ("cpu", "simgpu:0")]
"""
# Names that differ from kernel to kernel, and what imports leave on a disk that is the kernel's own.
OWN = re.compile(r"/tmp/grading-[\w/-]*|\[\d+\]")
CACHES = (".cache", ".matplotlib", "torchinductor_student")


def told(lab):
    return {name: repr(value) for name, value in lab.found.items()}


def compared(found, home):
    """What was told, without what cannot be the same."""
    found = {name: OWN.sub("OWN", text.replace(home, "HOME")) for name, text in found.items()}
    files = ast.literal_eval(found["files"])
    found["files"] = {
        place: [name for name in names if name not in CACHES and not name.startswith("grading-")]
        for place, names in files.items()
    }
    if home != places.HOME:  # what is everybody's, other processes change meanwhile
        del found["files"]["/tmp"], found["files"]["/dev/shm"], found["processes"], found["writable"]
    # The fork server's own; and one that matplotlib reads a font with, where it has no cache yet.
    own = ("utils.grading.run.forked_kernels", "utils.processes", "utils.processes.fork_server", "encodings.utf_16_be")
    found["modules"] = [name for name in ast.literal_eval(found["modules"]) if name not in own]
    environment = ast.literal_eval(found["environment"])
    # Whose death ends a kernel that is in no sandbox; in one that is the supervisor's matter.
    environment.pop("JPY_PARENT_PID", None)
    found["environment"] = environment
    return found


def home(lab):
    return lab.home


def numbers(lab):
    return lab.numbers


def seven(lab):
    return lab.number


@pytest.fixture
def sigint_as_ever():
    """Tests that a shell runs in the background ignore SIGINT, and a new process that they start would, too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("sandboxed", [True, pytest.param(False, marks=THOROUGH)])
def test_a_fork_finds_what_a_fresh_process_finds(sandboxed, sigint_as_ever):
    found = []
    for warm in (True, False):
        with KernelStudent([SNAPSHOT], Limits(warm=warm, sandboxed=sandboxed)) as student:
            assert not student.errors
            found.append(compared(student.run(told), student.run(home)))
    fork, fresh = found
    assert {name: (fork[name], fresh[name]) for name in fork if fork[name] != fresh[name]} == {}


def test_two_forks_draw_different_numbers():
    drawn = []
    for _ in range(2):
        with KernelStudent([SNAPSHOT]) as student:
            drawn.append(set(student.run(numbers)))
    assert not drawn[0] & drawn[1]


@THOROUGH  # a cheaper one: a fork finds what a fresh process finds
def test_the_same_submissions_get_the_same_grades_both_ways(tmp_path):
    kinds = ["partly", "crashes", "function_raises"]
    make_class(tmp_path / "class", "lab01", kinds=kinds, seed=5)
    handed_in = [
        Submission(path.parent.name, path) for path in sorted((tmp_path / "class" / "submissions").glob("*/*.ipynb"))
    ]
    lab, both = load_lab("lab01", hidden=True), []
    for warm in (True, False):
        grades = [grade_submission(one, lab, Limits(cell=60, call=30, warm=warm)) for one in handed_in]
        both.append([(g.student, g.status, g.points, g.note, g.flags, g.findings) for g in grades])
    assert len(both[0]) == len(kinds)
    assert both[0] == both[1]


def test_where_the_fork_server_dies_another_takes_over_and_nothing_is_lost():
    with KernelStudent(["number = 7", "1 / 0"]) as student:
        assert student.run(seven) == 7
        environment = kernel._environment(places.HOME)
        before = provisioner.kernel_fork_server(environment)
        before.process.kill()
        before.process.wait()  # killed is not ended: until then it is the one that there is
        assert student.run(seven) == 7
        after = provisioner.kernel_fork_server(environment)
        assert after is not before
        assert not Path(before.folder).exists()
        assert student.worst == "error"
        assert list(student.errors) == [2]


def test_a_kernel_that_was_stopped_has_ended_however_long_that_takes(monkeypatch):
    """Jupyter's manager kills it, and goes on after five seconds. Its processes count for the next one's limit."""
    stopped = kernel.KernelProcess(Limits())
    monkeypatch.setattr(stopped._manager, "shutdown_kernel", lambda now: stopped._process.kill())
    stopped.stop()
    assert stopped._process.returncode is not None


@THOROUGH  # a cheaper one: where the system allows no forked sandboxes
def test_where_none_can_be_kept_alive_each_kernel_is_a_fresh_process(monkeypatch):
    def none(*_, **__):
        raise ForkServerEnded("no")

    monkeypatch.setattr(kernel, "kernel_fork_server", none)
    with KernelStudent(["number = 7"]) as student:
        assert student.run(seven) == 7
        assert not hasattr(student._kernel._process, "processes")


@THOROUGH  # a cheaper one: no sandbox
def test_where_sandboxes_cannot_be_forked_each_kernel_is_a_fresh_process(monkeypatch):
    monkeypatch.setattr(sandbox, "no_forks", lambda: "mount: Operation not permitted")
    monkeypatch.setattr(kernel, "kernel_fork_server", None)
    with KernelStudent(["number = 7"]) as student:
        assert student.run(seven) == 7


@THOROUGH  # a cheaper one: nothing is lost
def test_nothing_is_left_when_a_fork_server_is_closed():
    warm = provisioner.KernelForkServer(kernel._environment(places.HOME))
    warm.wait_until_ready(120)
    number, folder = warm.process.pid, Path(warm.folder)
    assert psutil.pid_exists(number)
    warm.close()
    assert not psutil.pid_exists(number)
    assert not folder.exists()


def test_a_submission_is_graded_without_a_sandbox_too(tmp_path):
    nbformat.write(notebook_with("lab01", {}), tmp_path / "ann.ipynb")
    lab = load_lab("lab01", hidden=True)
    grade = grade_submission(Submission("ann", tmp_path / "ann.ipynb"), lab, Limits(sandboxed=False))
    assert (grade.total, grade.status, grade.flags) == (lab.points, "ok", [])


@THOROUGH  # a cheaper one: a fork finds what a fresh process finds
def test_a_notebook_that_names_cuda_is_told_the_same_in_a_fork_and_in_a_fresh_kernel():
    cells, said = ["import torch\ntorch.zeros(1, device='cuda:0')"], []
    for warm in (True, False):
        with KernelStudent(cells, Limits(warm=warm)) as student:
            said.append(student.errors[1])
    assert said[0] == said[1]
    assert "fork" not in said[0]
    assert "CUDA" in said[0] or "NVIDIA" in said[0]
