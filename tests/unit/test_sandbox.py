"""The sandbox, from inside: what a process in it can see, reach, and use. Needs bubblewrap; `make test` installs it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.support.notebooks import ROOT
from utils.grading.run import places, sandbox

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux")


def inside(source, resources=None, **seen):
    """Run Python in the sandbox: (what it printed as JSON, the finished process)."""
    python, limits = [sys.executable, "-c", source], resources or sandbox.Resources()
    command = sandbox.in_sandbox(python, limits, {"HOME": "/tmp"}, **seen)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    return (json.loads(done.stdout) if done.stdout else None), done


def test_it_works_here():
    sandbox.require_sandbox()


@pytest.mark.parametrize("program", ["bwrap", "prlimit", "setpriv"])
def test_a_missing_program_is_named_with_what_installs_it(program, monkeypatch):
    real = sandbox.shutil.which
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: None if name == program else real(name))
    with pytest.raises(sandbox.NoSandbox, match=f"{program} is missing: install it"):
        sandbox.require_sandbox()


def test_other_platforms_are_refused(monkeypatch):
    monkeypatch.setattr(sandbox.sys, "platform", "darwin")
    with pytest.raises(sandbox.NoSandbox, match="no sandbox on darwin"):
        sandbox.require_sandbox()


def test_it_sees_the_environment_and_utils_and_nothing_else_of_the_course(tmp_path):
    (tmp_path / "secret").write_text("x")
    look = f"""
import json, os
processes = [name for name in os.listdir("/proc") if name.isdigit()]
print(json.dumps([os.listdir({str(ROOT)!r}), os.path.exists({str(tmp_path)!r}), os.listdir("."), os.listdir("/tmp"),
                  os.path.exists("/etc/passwd"), processes, dict(os.environ)]))
"""
    (course, other, here, temporary, passwords, processes, environment), _ = inside(look)
    assert set(course) <= {"utils", ".venv"}
    assert not other

    def on_the_way(folder):
        needed = map(Path, places.places().needed)
        return {path.relative_to(folder).parts[0] for path in needed if path.is_relative_to(folder)}

    assert (set(here) - on_the_way(places.HOME), set(temporary) - on_the_way("/tmp"), passwords) == (
        set(),
        set(),
        False,
    )
    assert len(processes) <= 3, "no process of outside"
    assert set(environment) <= {"HOME", "PWD", "LC_CTYPE"}


def test_it_writes_to_its_own_folders_only():
    tried = ["/x", "/dev/x", "/usr/x", "/etc/x", f"{ROOT}/utils/x", f"{sys.prefix}/x", "/home/x", "/proc/x"]
    write = f"""
import json
def can(path):
    try:
        open(path, "w").write("x")
        return True
    except OSError:
        return False
print(json.dumps([[p for p in {tried!r} if can(p)], [p for p in ["x", "/tmp/x", "/dev/shm/x"] if can(p)]]))
"""
    found, _ = inside(write)
    assert found == [[], ["x", "/tmp/x", "/dev/shm/x"]]
    assert not (ROOT / "utils" / "x").exists()


def test_it_has_no_network():
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.5)
        reached = []

        def listen():
            with contextlib.suppress(TimeoutError):
                reached.append(server.accept())

        thread = threading.Thread(target=listen)
        thread.start()
        port = server.getsockname()[1]
        connect = f"import json, socket; print(json.dumps(socket.socket().connect_ex(('127.0.0.1', {port}))))"
        found, _ = inside(connect)
        thread.join()
    assert found != 0
    assert not reached


def test_limits_bind():
    small = sandbox.Resources(memory=300 * 2**20, processes=20, file=2**20, folder=4 * 2**20)
    use = """
import json, os, resource, subprocess, sys, time
found = {}
try:
    bytearray(400 * 2**20)
except MemoryError:
    found["memory"] = "refused"
try:
    with open("big", "wb") as file:
        for _ in range(3):
            file.write(bytes(2**20))
except OSError as error:
    found["file"] = error.strerror
try:
    for number in range(20):
        open(str(number), "wb").write(bytes(2**19))
except OSError as error:
    found["folder"] = error.strerror
children = []
try:
    for _ in range(40):
        child = os.fork()
        if child == 0:
            time.sleep(5)
            os._exit(0)
        children.append(child)
except OSError as error:
    found["processes"] = error.strerror
for child in children:
    os.kill(child, 9)
print(json.dumps(found))
"""
    import_nothing_big = "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    found, done = inside(import_nothing_big + use, small)
    assert found == {
        "memory": "refused",
        "file": "File too large",
        "folder": "No space left on device",
        "processes": "Resource temporarily unavailable",
    }, done.stderr


def test_nothing_outlives_it():
    """A daemon with a session of its own dies with the sandbox, long before it would end by itself."""
    command = [sys.executable, "-c", "import os, time; os.fork() or (os.setsid(), time.sleep(300)); print(os.getpid())"]
    marker = f"sandbox-test-{os.getpid()}"
    done = subprocess.run(
        sandbox.in_sandbox([*command, marker], sandbox.Resources(), {}), stdout=subprocess.DEVNULL, timeout=60
    )
    assert done.returncode == 0
    left = [process for process in psutil.process_iter(["cmdline"]) if marker in (process.info["cmdline"] or [])]
    _, alive = psutil.wait_procs(left, timeout=60)  # the kernel ends it a moment after bubblewrap has ended
    assert not alive


def test_as_root_it_is_another_user():
    found, _ = inside("import json, os; print(json.dumps([os.getuid(), os.getgroups()]))")
    assert found[0] == (sandbox.user() if os.geteuid() == 0 else 1000)
    assert 0 not in found[1]


def test_who_waits_is_told_why_it_takes_long(monkeypatch, caplog):
    from utils.grading import folder
    from utils.grading.run.kernel import Limits

    monkeypatch.setattr(sandbox, "no_forks", lambda: "mount: Operation not permitted")
    folder._say_if_slow(Limits(warm=False))
    assert caplog.messages == []
    folder._say_if_slow(Limits())
    assert "mount: Operation not permitted" in caplog.text
    assert len(caplog.messages) == 1
