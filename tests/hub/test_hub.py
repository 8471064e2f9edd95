"""A real hub with real servers: who gets in, what they see of each other, handing in, and what a crash leaves."""

import signal
import sys
import time

import psutil
import pytest
import requests

from tests.support.a_hub import AHub
from tests.support.hub_student import HubStudent
from tests.support.notebooks import notebook_with
from utils.hub import hand_ins

LAB01 = "labs/lab01/lab01_split_a_model.ipynb"
HAND_IN = 'from utils.exercises.hand_in import hand_in\nhand_in("lab01")'


pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("hub"),
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="bubblewrap is for Linux"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    hub = AHub(tmp_path_factory.mktemp("hub"), ["ann", "bob", "20231"], live="true")
    try:
        hub.start()
        yield hub
    finally:
        hub.stop()  # what a killed hub has left may stay: docs/classroom.md does not promise otherwise


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
    *cells, button = [cell for cell in notebook_with("lab01", {}).cells if cell.cell_type == "code"]
    for cell in cells:
        ran = ann.run(cell.source)
        assert not ran.error, cell.source
    assert "10 of 10 points by the visible tests" in ran.text
    assert "Button(description='Hand in lab01'" in ann.run(button.source).text


def test_a_notebook_that_is_handed_in_has_a_receipt(hub, ann):
    before = ann.run(HAND_IN).text
    assert "does not have make_layers as you last ran it: save (Ctrl+S), then hand in again." in before
    ann.save(LAB01, notebook_with("lab01", {}))
    receipt = ann.run(HAND_IN).text
    assert receipt.startswith("Handed in: lab01, ")
    assert "It replaces the one of" in receipt
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
    assert alone == "['course', 'homes'] ['bob']"
    assert int(shown) <= 6  # the room's own, the server, this kernel
    assert neighbours == "False"
    assert paths[:3] == ["/course True False", "/course/utils/__init__.py True False", "/homes True False"]
    assert all(line.endswith("False False") for line in paths[3:])


def test_memory_and_files_in_memory_are_a_students_own(ann, bob):
    for place in ("/tmp", "/dev/shm"):
        assert not ann.run(f"open('{place}/mine', 'w').write('secret')").error
        assert bob.run(f"open('{place}/mine')").error.startswith("FileNotFoundError")
    assert "MemoryError" in bob.run("hoard = bytearray(3 * 2**30)").error


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


def test_the_instructors_page_shows_what_checks_said(hub, ann, bob):
    bob.run("from utils.exercises.check import checker\ncheck = checker('lab01', globals())\ncheck('ex1')")
    instructor = HubStudent(hub.address, "instructor")
    assert instructor.log_in(hub.of.instructors_password)
    deadline = time.monotonic() + 30
    while "<td>bob</td><td>ex1 not yet (1)</td>" not in (page := live_page_of(instructor)):
        assert time.monotonic() < deadline, page
        time.sleep(0.2)
    assert "returns two nn.Linear layers" in page
    assert live_page_of(bob) == "403"
    told = requests.get(f"{hub.address}/hub/login", timeout=60).text
    assert "Your instructor sees which exercises" in told


def live_page_of(student):
    answer = student.web.get(f"{student.address}/services/class/live")
    return answer.text if answer.ok else str(answer.status_code)


def test_a_hand_in_from_another_page_of_a_browser_is_refused(hub, ann):
    """With cookies alone, which a foreign page's request would carry."""
    answer = ann.web.post(f"{hub.address}/services/class/hand_in/lab01", json={"file": "a", "notebook": "{}"})
    assert answer.status_code == 403


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
    assert again.run(HAND_IN).text.startswith("Handed in: lab01")


def test_a_killed_proxy_comes_back(hub, ann):
    at = int((hub.of.hub / "proxy.pid").read_text().split()[0])
    psutil.Process(at).send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 240
    while not hub.answers():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert hub.student("ann").api("GET", f"kernels/{ann.kernel}").status_code == 200
