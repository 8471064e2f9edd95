"""The fork server of kernels and ranks, with something light in the place of a kernel."""

import json
import socket
import subprocess
import sys

import psutil
import pytest

from tests.support.notebooks import ROOT
from utils.processes import fork_server

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks are for Linux")
SLEEPS = "time.sleep(30)"


class Warm:
    """A fork server whose kernels do `work`. `prepared` is what it does before it is ready."""

    def __init__(self, work: str = "pass", prepared: str = "pass"):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(20)
        script = f"""
import os, sys, threading, time
from utils.grading.run import forked_kernels
from utils.processes import fork_server
def load():
    {prepared}
    def begin(files, arguments):
        {work}
        os._exit(7)
    return forked_kernels._kernels(begin)
sys.modules["light"] = sys.modules["__main__"]
fork_server.main()
"""
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(theirs.fileno()), "light:load"], cwd=ROOT, pass_fds=[theirs.fileno()]
        )
        theirs.close()

    def __enter__(self):
        assert self.control.recv(100).decode() == fork_server.READY
        return self

    def __exit__(self, *exception):
        self.control.close()
        self.process.wait(20)

    def fork(self, apart: bool = True) -> socket.socket:
        life, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        life.settimeout(20)
        request = {"apart": apart, "user": None, "limits": {}, "rooms": {"empty": {}}}
        request |= {"environment": {}, "folder": "/", "arguments": []}
        socket.send_fds(self.control, [json.dumps(request).encode()], [theirs.fileno()])
        theirs.close()
        return life

    def ended(self) -> bool:
        """Whether it has ended by itself, within a while."""
        return self.control.recv(100) == b""


@pytest.mark.parametrize("apart", [True, False])
def test_a_fork_is_started_and_how_it_ended_is_told(apart):
    with Warm() as parent:
        for _ in range(2):
            with parent.fork(apart) as life:
                assert [life.recv(1000).decode() for _ in range(2)] == [fork_server.STARTED, f"{fork_server.ENDED} 7"]


def test_a_fork_ends_when_no_process_reads_from_it_any_more():
    with Warm(SLEEPS) as parent:
        life = parent.fork()
        assert life.recv(1000).decode() == fork_server.STARTED
        forked = psutil.Process(parent.process.pid).children(recursive=True)
        assert len(forked) >= 2
        life.close()
        assert psutil.wait_procs(forked, timeout=20)[1] == []


@pytest.mark.parametrize("apart", [True, False])
def test_a_fork_ends_when_its_supervisor_does(apart):
    with Warm(SLEEPS) as parent, parent.fork(apart) as life:
        assert life.recv(1000).decode() == fork_server.STARTED
        supervisor = psutil.Process(parent.process.pid).children()[0]
        forked = supervisor.children(recursive=True)
        supervisor.kill()
        assert psutil.wait_procs(forked, timeout=10)[1] == []


def test_a_child_ends_that_asks_after_its_parent_has_ended():
    """A supervisor may be killed between its fork and what the child does first."""
    script = """
import os, select
from utils.processes.fork_server import die_with_parent
parent = os.pidfd_open(os.getpid())
if os.fork():
    os._exit(0)
select.select([parent], [], [])
print("asks", flush=True)
die_with_parent(parent)
print("lives on")
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, timeout=60, text=True)
    assert (done.stdout, done.stderr) == ("asks\n", "")


def test_a_process_with_two_threads_is_never_ready():
    parent = Warm(prepared="threading.Thread(target=time.sleep, args=[60], daemon=True).start()")
    assert parent.ended()
    parent.control.close()
    assert parent.process.wait(20) == 0


@pytest.mark.parametrize(
    "changed",
    ["open('/dev/null').fileno", "threading.Thread(target=time.sleep, args=[60], daemon=True).start", "import_module"],
)
def test_a_process_that_is_not_as_it_was_ends(changed):
    # What PyTorch or a package may do one day where it is forked, in the parent.
    does = {
        "open('/dev/null').fileno": "os.open('/dev/null', os.O_RDONLY)",
        "import_module": "__import__('this_is_new')",
    }.get(changed, f"{changed}()")
    if changed == "import_module":
        does = "sys.modules.update(new=threading)"
    with Warm(prepared=f"os.register_at_fork(after_in_parent=lambda: {does})") as parent, parent.fork() as life:
        assert life.recv(1000).decode() == fork_server.STARTED
        assert parent.ended()


def test_threads_are_counted():
    script = """
import threading
from utils.processes.fork_server import threads
alone, event = threads(), threading.Event()
threading.Thread(target=event.wait).start()
print(alone, threads())
event.set()
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.split() == ["1", "2"]
