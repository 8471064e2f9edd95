"""A fork's own namespaces, from inside."""

import json
import subprocess
import sys

import pytest

from tests.support.notebooks import ROOT
from utils.grading.run import isolation

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="namespaces are Linux's")
MIB = 2**20


def in_a_fork(work: str):
    """What `work` says, run as the first process of new namespaces."""
    script = f"""
import json, os, resource, socket
from pathlib import Path
from utils.grading.run import isolation
from utils.grading.run.isolation import setup_mounts, drop_privileges
def say(what):
    print(json.dumps(what), flush=True)
isolation.unshare_namespaces()
if os.fork() == 0:
{"".join(f"    {line}{chr(10)}" for line in work.strip().splitlines())}
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_can_be_done_here():
    isolation.trial()


def test_what_is_kept_stays_below_an_empty_folder_and_cannot_be_written_or_renamed(tmp_path):
    """As where the course lies in /tmp: Python and `utils` stay, and what is beside them is gone."""
    way = tmp_path / "Jürgen's course"
    environment = way / "a" / "env"
    environment.mkdir(parents=True)
    for file in (environment / "python", way / "hidden.py", way / "file"):
        file.write_text(file.name)
    kept = [str(environment), str(way / "file")]
    found = in_a_fork(f"""
setup_mounts({{{str(tmp_path)!r}: {MIB}}}, kept={kept!r}, ways=[{str(way)!r}])
def tried(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return error.strerror
way, kept = Path({str(way)!r}), Path({str(environment)!r})
say({{
    "there": [sorted(os.listdir(folder)) for folder in (way.parent, way, kept)],
    "read": [(kept / "python").read_text(), (way / "file").read_text()],
    "renamed": [tried(os.rename, way, way.with_name("b")), tried(os.rename, way / "a", way / "b")],
    "written": tried((way / "new").write_text, "x"),
    "beside": tried((way.parent / "mine").write_text, "x"),
}})""")
    assert found == {
        "there": [["Jürgen's course"], ["a", "file"], ["python"]],
        "read": ["python", "file"],
        "renamed": ["Device or resource busy", "Read-only file system"],
        "written": "Read-only file system",
        "beside": 1,
    }


def test_what_renounces_has_no_privileges():
    status = in_a_fork("""
drop_privileges(1_000_000 if os.geteuid() == 0 else None, {})
say(dict(line.split(":\\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\\t" in line))
""")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, name
    assert status["NoNewPrivs"] == "1"
    assert "0" not in status["Uid"].split() + status["Gid"].split()


def test_what_renounces_has_no_open_files_but_those_it_keeps_and_its_limits():
    kept, files, most, dumpable = in_a_fork("""
kept = max(os.dup(0) for _ in range(20))
isolation.close_files((kept,))
drop_privileges(None, {"NOFILE": 99, "CORE": 0})
files = [number for number in range(1000) if os.path.lexists(f"/proc/{os.getpid()}/fd/{number}")] or None
def open_(number):
    try:
        return bool(os.fstat(number))
    except OSError:
        return False
limits = [resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CORE)]
say([kept, [number for number in range(1000) if open_(number)], limits, isolation.libc.prctl(3, 0, 0, 0, 0)])
""")
    assert files == [0, 1, 2, kept]
    assert most == [[99, 99], [0, 0]]
    assert dumpable == 0


def test_the_folders_are_empty_and_as_large_as_was_asked(tmp_path):
    seen, unseen = tmp_path / "seen", tmp_path / "unseen"
    for path in (seen, unseen):
        path.write_text("here")
    folder = tmp_path / "folder"
    folder.mkdir()
    sizes, found, refused, processes = in_a_fork(f"""
sizes = {{{str(tmp_path)!r}: {2 * MIB}, "/dev/shm": {3 * MIB}}}
setup_mounts(sizes, readable=[{str(seen)!r}], writable=[{str(folder)!r}])
Path({str(folder / "mine")!r}).write_text("written")
try:
    Path({str(seen)!r}).write_text("changed")
    refused = False
except OSError:
    refused = True
size = lambda path: os.statvfs(path).f_blocks * os.statvfs(path).f_frsize
processes = [name for name in os.listdir("/proc") if name.isdigit()]
say([[size(path) for path in sizes], sorted(os.listdir({str(tmp_path)!r})), refused, processes])
""")
    assert sizes == [2 * MIB, 3 * MIB]
    assert found == ["folder", "seen"]
    assert refused
    assert seen.read_text() == "here"
    assert (folder / "mine").read_text() == "written"
    assert processes == ["1"]


def test_what_is_kept_may_lie_below_no_empty_folder_or_below_two(tmp_path):
    folder, seen = tmp_path / "folder", tmp_path / "folder" / "seen"
    (folder / "sockets").mkdir(parents=True)
    seen.write_text("here")
    for empty in ({}, {str(tmp_path): MIB, str(folder): MIB}):
        found = in_a_fork(f"""
setup_mounts({empty}, readable=[{str(seen)!r}], writable=[{str(folder / "sockets")!r}])
say([Path({str(seen)!r}).read_text(), sorted(os.listdir({str(folder)!r}))])
""")
        assert found == ["here", ["seen", "sockets"]]


def test_a_file_that_is_kept_may_lie_where_nothing_can_be_run():
    # A user who is not known outside may not take such a flag away, as from a /tmp that is mounted so.
    found = in_a_fork("""
isolation._mount("tmpfs", "/tmp", isolation.NOEXEC, "mode=1777")
if os.geteuid() == 0:
    os.setresgid(4242, 4242, 4242)
    os.setresuid(4242, 4242, 4242)
Path("/tmp/seen").write_text("here")
isolation.unshare_namespaces()
if os.fork() == 0:
    setup_mounts({}, readable=["/tmp/seen"])
    say(Path("/tmp/seen").read_text())
    os._exit(0)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
""")
    assert found == "here"
