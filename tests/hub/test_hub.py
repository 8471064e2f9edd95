"""A real hub with real servers: who gets in, what they see of each other, handing in, and what a crash leaves."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import requests

from tests.browser.room import SHOWN, browser_student
from tests.support.a_hub import AHub
from tests.support.answers import chosen
from tests.support.hub_student import HubStudent
from tests.support.notebooks import ROOT, notebook_with
from utils.hub import hand_ins
from utils.hub.priority import NICE

LAB01 = "labs/lab01/lab01_split_a_model.ipynb"
HAND_IN = 'from utils.exercises.hand_in import hand_in\nhand_in("lab01")'


pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("hub"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    hub = AHub(tmp_path_factory.mktemp("hub"), ["ann", "bob", "20231", "eve"], SHOWN, live="true")
    try:
        hub.start()
        yield hub
    finally:
        left = hub.stop()
    assert not left


@pytest.fixture(scope="module")
def ann(hub):
    student = hub.student("ann")
    student.open(LAB01)
    yield student
    student.close()


@pytest.fixture(scope="module")
def bob(hub):
    student = hub.student("bob")
    student.open(LAB01)
    yield student
    student.close()


@pytest.mark.parametrize(
    ("login", "password", "enters"),
    [("20231", None, True), ("ann", "password", False), ("dora", None, False), ("instructor", None, False)],
)
def test_who_is_in_the_list_enters_with_the_password_of_the_class(hub, login, password, enters):
    assert HubStudent(hub.address, login).log_in(password or hub.of.password) == enters


def test_the_kernel_is_the_courses_and_a_lab_can_be_done(ann):
    found = ann.run("import utils, torch; print(utils.__file__)")
    assert found.text.strip().endswith("class/course/utils/__init__.py")
    assert ann.run("import socket; socket.create_server(('localhost', 0)).close()").error == ""
    *cells, button = [cell for cell in notebook_with("lab01", {}).cells if cell.cell_type == "code"]
    for cell in cells:
        ran = ann.run(cell.source)
        assert not ran.error, cell.source
    assert "10 of 10 points from the visible tests" in ran.text
    assert "Button(description='Hand in lab01'" in ann.run(button.source).text


def test_a_notebook_that_is_handed_in_has_a_receipt(hub, ann):
    before = ann.run(HAND_IN).text
    assert "does not have make_layers as you last ran it. Save (Ctrl+S), then hand in again." in before
    ann.save(LAB01, notebook_with("lab01", {}))
    receipt = ann.run(HAND_IN).text
    assert receipt.startswith("Handed in: lab01, ")
    assert "It replaces the one handed in at" in receipt
    assert "as you last ran it" not in receipt
    kept = hand_ins.last_receipts(hub.of, "ann")["lab01"]
    assert kept.said == dict.fromkeys(["ex1", "ex2", "ex3", "ex4", "ex5"], "passed")
    assert kept.sha256[:16] in receipt


def test_a_deadline_counts_at_once_and_a_mistake_in_the_settings_stops_nobody(hub, ann):
    path = hub.folder / "class.toml"
    before = path.read_text()
    try:
        path.write_text(f"{before}\nlab01 = '2020-01-01 00:00 UTC'\n")
        assert "min after the deadline" in ann.run(HAND_IN).text
        page = ann.web.get(f"{hub.address}/services/class/").text
        assert "<p>lab01 is due 2020-01-01 00:00 UTC.</p>" in page
        path.write_text(f"{before}\nlab01 = 'soon'\n")
        assert ann.run(HAND_IN).text.startswith("Handed in: lab01, ")
    finally:
        path.write_text(before)


def test_nothing_of_anybody_else_is_seen(hub, ann, bob):
    code = f"""
import os
def has_ann(process):
    try:
        return b"ann" in open(f"/proc/{{process}}/environ", "rb").read()
    except PermissionError:
        return False
folder = {str(hub.folder)!r}
print(sorted(os.listdir(folder)), os.listdir(folder + "/homes"))
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
print(any(map(has_ann, filter(str.isdigit, os.listdir("/proc")))))
for path in ("/course", "/course/utils/__init__.py", "/homes", "/homes/ann", "/handed_in", "/class.toml"):
    print(path, os.access(folder + path, os.R_OK), os.access(folder + path, os.W_OK))
"""
    alone, shown, neighbours, *paths = bob.run(code).text.splitlines()
    assert alone == "['course', 'homes', 'warm'] ['bob']"
    assert int(shown) <= 6  # the room's own, the server, this kernel
    assert neighbours == "False"
    assert paths[:3] == ["/course True False", "/course/utils/__init__.py True False", "/homes True False"]
    assert all(line.endswith("False False") for line in paths[3:])


def test_memory_and_files_in_memory_are_a_students_own(ann, bob):
    for place in ("/tmp", "/dev/shm"):
        assert not ann.run(f"open('{place}/mine', 'w').write('secret')").error
        assert bob.run(f"open('{place}/mine')").error.startswith("FileNotFoundError")
    assert "MemoryError" in bob.run("hoard = bytearray(5 * 2**30)").error


def test_a_kernel_of_the_warm_process_is_a_process_of_its_room(bob):
    """Forked from outside, and after that as what is started inside."""
    code = """
import os, pathlib
def of(process):
    told = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process}/status").read_text().splitlines())
    own = {name: told[name].split() for name in ("Uid", "Gid", "Groups", "CapEff", "CapPrm", "CapBnd", "NoNewPrivs")}
    limits = pathlib.Path(f"/proc/{process}/limits").read_text()
    return own, limits, {name: os.readlink(f"/proc/{process}/ns/{name}") for name in os.listdir("/proc/self/ns")}
inside = next(int(one) for one in os.listdir("/proc") if one.isdigit() and b"\\0-m\\0utils.hub.start_server" in
              pathlib.Path(f"/proc/{one}/cmdline").read_bytes()[:200] and one != "1")
print("warm" if b"fork_server" in pathlib.Path("/proc/self/cmdline").read_bytes() else "ordinary")
print(of(inside) == of(os.getpid()))
open_now = {number: os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")
            if os.path.exists(f"/proc/self/fd/{number}")}
files = [path for path in open_now.values() if path.startswith("/") and not path.startswith(("/dev/null", "/proc/"))]
print([path for path in files if not path.startswith(os.environ["HOME"])])
print(sorted(os.environ.keys() & {"JUPYTERHUB_API_TOKEN", "COURSE_HAND_IN", "HOME"}), os.environ["HOME"][-4:])
"""
    ran = bob.run(code)
    assert not ran.error
    assert ran.text.split("\n")[:4] == [
        "warm",
        "True",
        "[]",
        "['COURSE_HAND_IN', 'HOME', 'JUPYTERHUB_API_TOKEN'] /bob",
    ]


def test_the_hub_and_what_serves_all_come_before_students(hub, bob):
    proxy, warm = psutil.Process(int((hub.of.hub / "proxy.pid").read_text().split()[0])), hub.warm_process()
    kernel = int(bob.run("import os; print(os.nice(0))").text)
    assert {process.nice() for process in (psutil.Process(hub.process.pid), proxy, warm)} == {kernel - NICE}


@pytest.mark.thorough  # a cheaper one: ranks in a room, below
def test_torchrun_and_its_workers_are_forked_from_the_warm_process(bob):
    code = """
import os, subprocess, sys
open("program.py", "w").write('''
import os, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor(1.0 + dist.get_rank())
dist.all_reduce(total)
warm = b"fork_server" in open("/proc/self/cmdline", "rb").read()
if dist.get_rank() == 0:
    print(total.item(), torch.accelerator.device_count(), warm, flush=True)
sys.exit(dist.get_rank() * int(sys.argv[1]))
''')
torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
how = dict(env=os.environ | {"SIMGPU": "2"}, capture_output=True, text=True)
for code in ("0", "3"):
    ran = subprocess.run([*torchrun, "--nproc-per-node=2", "program.py", code], **how)
    print(ran.stdout.strip(), ran.returncode, "exitcode  : 3" in ran.stderr)
waits = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
waits.kill()
print(waits.wait())
"""
    ran = bob.run(code)
    assert not ran.error
    assert ran.text.splitlines()[-3:] == ["3.0 2 True 0 False", "3.0 2 True 1 True", "-9"]


def test_a_warm_kernel_is_interrupted_and_comes_back_when_it_dies(bob):
    kernel = bob.kernel
    threading.Timer(1, lambda: bob.api("POST", f"kernels/{kernel}/interrupt")).start()
    assert bob.run("while True: pass").error.startswith("KeyboardInterrupt")
    bob.run("mine = 1")
    bob.begin("import os; os._exit(1)")
    bob.wait_for_a_new_kernel()
    assert bob.run("mine").error.startswith("NameError")


@pytest.mark.thorough  # a cheaper one: memory and files in memory, above
def test_a_student_whose_programs_have_too_much_together_is_told_why_one_was_ended(hub, bob):
    """None of them has more than a process may."""
    code = """
import os, time
GIB = 2**30
told, tell = os.pipe()
if os.fork() == 0:
    os.read(told, 1)  # so the kernel always has more
    held = bytearray(b"1") * int(1.4 * GIB)
    time.sleep(600)
held = bytearray(b"1") * (2 * GIB)
os.write(tell, b"1")
time.sleep(600)
"""
    before = hub.warm_process().pid
    bob.begin(code)
    bob.wait_for_a_new_kernel()
    ran = bob.run("6 * 7")
    assert "This is a new kernel: the one before was killed." in ran.text
    assert "42" in ran.text
    assert "a new kernel" not in bob.run("6 * 7").text
    assert "bob: more than 3 GiB" in (hub.folder / "log.txt").read_text()
    assert hub.warm_process().pid == before


def test_a_student_who_forks_without_end_stops_at_their_own_limit(hub, ann, bob):
    warm, number = hub.warm_process().pid, (hub.of.homes / "bob").stat().st_uid

    def processes() -> int:
        owners = [process.info["uids"] for process in psutil.process_iter(["uids"])]
        return sum(owner is not None and owner.real == number for owner in owners)

    bob.begin(
        "import subprocess; subprocess.run(['bash', '-c', 'f() { f | f & }; f; wait'], stderr=subprocess.DEVNULL)"
    )
    try:
        soon(lambda: processes() > 300)
        ann.connect(ann.kernel)  # the server ends a connection whose client is silent for long, as this one is above
        assert ann.run("6 * 7").text.strip() == "42"
        assert ann.run(HAND_IN).text.startswith("Handed in: lab01")
        assert processes() <= 600
    finally:
        bob.restart()
    assert bob.run("6 * 7").text.strip() == "42"
    soon(lambda: processes() < 20)
    assert hub.warm_process().pid == warm


def test_two_kernels_draw_different_random_numbers(ann, bob):
    code = "import random, numpy, torch; print(random.random(), numpy.random.rand(), torch.rand(1).item())"
    first, second = (student.run(code).text.split() for student in (ann, bob))
    assert not set(first) & set(second)


def test_ranks_are_processes_of_the_room_too(bob):
    code = """
from utils.ranks import ranks
def told():
    import os, torch, torch.distributed as dist
    sums = torch.ones(1, device="simgpu")
    dist.all_reduce(sums)
    return sums.item(), os.getuid(), os.readlink("/proc/self/ns/mnt"), os.getcwd()
import os
print(ranks(3).run(told) == [(3.0, os.getuid(), os.readlink("/proc/self/ns/mnt"), os.getcwd())] * 3)
print([name for name in os.listdir("/proc") if name.isdigit() and b"one_rank" in
       open(f"/proc/{name}/cmdline", "rb").read()])
"""
    assert bob.run(code).text.split("\n")[:2] == ["True", "[]"]


def test_the_warm_process_answers_those_who_ask_for_nonsense_with_nothing(hub, bob):
    """Too many, no JSON, no socket, half a request; then it forks as before."""
    code = """
import json, os, socket
def ask(data, *files):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as control:
        control.connect(os.environ["COURSE_FORK_SERVER"])
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(60)
        socket.send_fds(control, [data], [theirs.fileno() if one is None else one for one in files])
        theirs.close()
        return ours.recv(100)
kernel = json.dumps({"environment": {}, "folder": "/", "arguments": ["-f", "/none"]}).encode()
with open("/dev/null") as no_socket:
    print([ask(b"{", None), ask(b"[]", None), ask(b'{"count": 1000000}', None), ask(b'{"count": "2"}', None)])
    print([ask(kernel, no_socket.fileno(), None), ask(b"[" * 30_000, None)])
print(ask(kernel, None))
"""
    assert bob.run(code).text.split("\n")[:3] == [
        "[b'', b'', b'', b'']",
        "[b'', b'']",
        "b'started'",
    ]


@pytest.mark.thorough  # a cheaper one: a killed kernel, above
def test_a_killed_warm_process_ends_no_kernel_and_comes_back(hub, ann):
    ann.run("kept = 1")
    hub.warm_process().kill()
    assert ann.run("kept").text.strip() == "1"
    other = hub.student("ann")
    other.open("notebooks/00_start_here.ipynb")  # from a new one, or an ordinary kernel: which, depends on how soon
    assert other.run("6 * 7").text.strip() == "42"
    other.end_kernel()
    other.close()


def test_nobody_hands_in_for_another_or_looks_at_what_they_have(hub, bob):
    ask = """
import json, os, urllib.error, urllib.request
def ask(address, data=None, token=os.environ["JUPYTERHUB_API_TOKEN"]):
    headers = {"Authorization": "token " + token}
    try:
        return urllib.request.urlopen(urllib.request.Request(address, data, headers)).read().decode()
    except urllib.error.HTTPError as error:
        return error.code
service, api = os.environ["COURSE_HAND_IN"], os.environ["JUPYTERHUB_API_URL"]
notebook = json.dumps({"file": "a.ipynb", "notebook": '{"cells": []}', "student": "ann"}).encode()
"""
    bob.run(ask)
    assert bob.run('ask(service + "hand_in/lab01", notebook, "0" * 32)').text.strip() == "403"
    told = bob.run('print(json.loads(ask(service + "hand_in/lab01", notebook))["student"])').text
    assert told.strip() == "bob"
    page = bob.run("print(ask(service))").text
    assert "<td>bob</td>" in page
    assert "<td>ann</td>" not in page
    assert bob.run('print(ask(api + "/users"), ask(api + "/users/ann"))').text.split() == ["403", "404"]
    others = bob.run(f'print(ask("{hub.address}/user/ann/api/contents"))').text
    assert others.strip() == "403"


def test_the_instructor_sees_all_that_was_handed_in(hub, ann):
    instructor = HubStudent(hub.address, "instructor")
    assert instructor.log_in(hub.of.instructors_password)
    page = instructor.web.get(f"{hub.address}/services/class/").text
    assert "<td>ann</td>" in page
    assert "ex1 passed" in page
    assert 'href="live"' in page
    assert 'href="live"' not in ann.web.get(f"{hub.address}/services/class/").text


def test_the_instructors_page_shows_what_checks_said(hub, ann, bob):
    """In bob's kernel: an answer of which it is known what a student thinks who gives it."""
    answers = chosen("lab01", "wrong", ex1="both_on_first")
    setup, answer = [cell.source for cell in notebook_with("lab01", answers).cells if cell.cell_type == "code"][:2]
    bob.run(setup)
    bob.run(answer)
    bob.run("check('ex1')")
    instructor = HubStudent(hub.address, "instructor")
    assert instructor.log_in(hub.of.instructors_password)
    deadline = time.monotonic() + 30
    while "<td>bob</td><td>ex1 not yet (1)</td>" not in (page := live_page_of(instructor)):
        assert time.monotonic() < deadline, page
        time.sleep(0.2)
    assert "<td>layer1 is on device0 and layer2 is on device1</td><td>Thinks that layers which work one" in page
    assert live_page_of(bob) == "403"
    assert "Kernels that died" in page
    told = requests.get(f"{hub.address}/hub/login", timeout=60).text
    assert "Your instructor sees which exercises" in told


@pytest.mark.thorough  # cheaper ones: tests/unit/test_hand_in.py, and what the page shows, above
def test_what_was_graded_is_seen_by_its_student_and_the_instructor(hub, ann, bob, tmp_path):
    ann.save(LAB01, notebook_with("lab01", {}))
    assert "Handed in: lab01, " in ann.run(HAND_IN).text
    options = ["--hub", hub.folder, "--out", tmp_path / "graded", "--give-back"]
    command = [sys.executable, "-m", "utils.course", "grade", "lab01", *map(str, options)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "Given back: 1 student sees the page" in done.stdout, done.stderr
    page = f"{hub.address}/services/class/"
    answer = ann.web.get(f"{page}result/lab01")
    assert "10" in answer.text
    assert "make_layers" in answer.text
    assert answer.headers["Content-Security-Policy"].startswith("sandbox; default-src 'none'")
    assert 'href="result/lab01"' in ann.web.get(page).text
    assert bob.web.get(f"{page}result/lab01?student=ann").status_code == 404
    instructor = HubStudent(hub.address, "instructor")
    assert instructor.log_in(hub.of.instructors_password)
    assert instructor.web.get(f"{page}result/lab01?student=ann").text == answer.text
    assert instructor.web.get(f"{page}result/lab01?student=..%2Fann").status_code == 404
    seen = bob.run(f"import os; print(os.access({str(hub.of.results)!r}, os.F_OK))")
    assert seen.text.strip() == "False"


def test_a_raised_hand_is_on_the_instructors_page_until_helped(hub, ann, bob):
    code = "from utils.exercises.raise_hand import raise_hand\nraise_hand('lab01 <b>ex2')"
    assert ann.run(code).text.startswith("Your hand is up.\nYou are the first.")
    assert "1 student is ahead of you" in bob.run(code).text
    instructor = HubStudent(hub.address, "instructor")
    assert instructor.log_in(hub.of.instructors_password)
    page = live_page_of(instructor)
    assert page.index('value="ann"') < page.index('value="bob"')
    assert "lab01 &lt;b&gt;ex2" in page
    address, pressed = f"{hub.address}/services/class/live", {"student": "ann"}
    assert instructor.web.post(address, data=pressed).status_code == 403  # as another page of the browser would
    pressed["_xsrf"] = re.search(r'name="_xsrf" value="([^"]+)"', page)[1]
    assert bob.web.post(address, data=pressed).status_code == 403
    assert instructor.web.post(address, data=pressed).ok
    page = live_page_of(instructor)
    assert 'value="bob"' in page
    assert 'value="ann"' not in page


def live_page_of(student):
    answer = student.web.get(f"{student.address}/services/class/live")
    return answer.text if answer.ok else str(answer.status_code)


def test_a_student_in_a_browser_logs_in_does_a_lab_and_presses_the_button(hub):
    """The form of the login page, JupyterLab and its widgets, all through the hub's addresses."""
    with browser_student(hub.address, "eve") as eve:
        eve.log_in(hub.of.password)
        eve.wait_for_the_server()
        eve.open(LAB01)
        eve.write([cell.source for cell in notebook_with("lab01", {}).cells])
        eve.run_all()
        assert eve.hand_in().startswith("Handed in: lab01")
        eve.page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
        eve.end_kernels()
        kept = hub.of.homes / "eve/.jupyter/lab"
        soon(lambda: list(kept.glob("workspaces/*")) and list(kept.glob("user-settings/*/*/themes*")))
    assert hand_ins.last_receipts(hub.of, "eve").keys() == {"lab01"}


def test_a_hand_in_from_another_page_of_a_browser_is_refused(hub, ann):
    """With cookies alone, which a foreign page's request would carry."""
    answer = ann.web.post(f"{hub.address}/services/class/hand_in/lab01", json={"file": "a", "notebook": "{}"})
    assert answer.status_code == 403


@pytest.mark.thorough  # cheaper ones of what a hub keeps: handing in, above
def test_a_killed_hub_loses_nothing_and_kernels_go_on(hub, ann):
    ann.run("mine = 41")
    before = hand_ins.last_receipts(hub.of, "ann")
    hub.kill()
    assert ann.run("mine + 1").text.strip() == "42"
    assert ann.run(HAND_IN).text  # a receipt or one line, and no traceback
    hub.start()
    assert hand_ins.last_receipts(hub.of, "ann").keys() == before.keys()
    again = hub.student("ann")
    again.connect(ann.kernel)
    assert again.run("mine + 1").text.strip() == "42"
    assert not again.run("import utils.planner").error  # not loaded before
    assert again.run(HAND_IN).text.startswith("Handed in: lab01")


@pytest.mark.thorough
def test_a_killed_proxy_comes_back(hub, ann):
    at = int((hub.of.hub / "proxy.pid").read_text().split()[0])
    psutil.Process(at).send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 240
    while not hub.answers():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert hub.student("ann").api("GET", f"kernels/{ann.kernel}").status_code == 200


@pytest.mark.thorough  # a cheaper one: the line itself, in tests/unit/test_line.py
def test_where_memory_is_full_servers_wait_in_line(tmp_path):
    hub = AHub(tmp_path, ["ann", "bob"], free_gib=100_000)
    try:
        hub.start()
        told = []
        for login in ("ann", "bob"):
            student = HubStudent(hub.address, login)
            assert student.log_in(hub.of.password)
            told.append(next(line for line in student.messages_while_waiting() if "memory" in line))
        assert "You are next." in told[0]
        assert "1 student is before you." in told[1]
    finally:
        left = hub.stop()
    assert not left


@pytest.mark.thorough  # cheaper ones of handing in: above
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid(), reason="only root can make a disk of a chosen size")
def test_a_full_disk_is_told_and_loses_nothing(tmp_path):
    """The class's folder is a disk of its own, which somebody fills to the last byte."""
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "none", tmp_path], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"no disk can be made here: {made.stderr.strip()}")
    hub = AHub(tmp_path, ["ann"])
    try:
        hub.start()
        ann = hub.student("ann")
        ann.open(LAB01)
        first = ann.run(HAND_IN).text
        kept = hand_ins.last_receipts(hub.of, "ann")
        filler = fill_the_disk(tmp_path)
        full = ann.run(HAND_IN).text
        assert "Not handed in: it could not be kept (No space left on device): tell your instructor" in full
        assert hand_ins.last_receipts(hub.of, "ann") == kept
        saved = ann.api("PUT", f"contents/{LAB01}", json={"type": "notebook", "content": notebook_with("lab01", {})})
        assert saved.status_code == 500
        assert ann.read(LAB01)["cells"]
        assert ann.run("6 * 7").text.strip() == "42"
        filler.unlink()
        assert first.split("SHA-256")[1][:17] in ann.run(HAND_IN).text
        ann.close()
    finally:
        left = hub.stop()
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
    assert not left


def fill_the_disk(folder: Path) -> Path:
    """A file there that takes all space that is free."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            with contextlib.suppress(OSError):
                while file.write(b"0" * size):
                    pass
    return filler


def soon(holds: Callable[[], object], within: float = 120) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.thorough  # a cheaper one: ranks in a room, above
@pytest.mark.parametrize("lesson", ["11_copies_of_a_model", "13_beyond_one_machine"])
def test_lessons_with_programs_and_ranks_run_in_a_room(hub, lesson):
    student = hub.student("20231")
    for cell in student.open(f"notebooks/{lesson}.ipynb")["cells"]:
        if cell["cell_type"] == "code":
            ran = student.run(cell["source"])
            assert not ran.error or "raises-exception" in cell["metadata"].get("tags", ()), cell["source"]
    student.end_kernel()
    student.close()
