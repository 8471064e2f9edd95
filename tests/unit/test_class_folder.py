"""The folder of a class: who is in it, what was handed in, and what is refused with one line."""

import json
import os
import re
import socket
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from utils.common.errors import Problem
from utils.grading.handed_in.platforms import read_names
from utils.hub import class_folder, hand_ins, results, room, start

NOTEBOOK = b'{"cells": []}'


@pytest.fixture
def folder(tmp_path):
    students = tmp_path / "students.txt"
    students.write_text("Ann\n# the evening group\nb.lee@x.org\n\n20231\n")
    class_folder.make_class(tmp_path / "class", students)
    (tmp_path / "class" / "course" / "labs" / "lab01").mkdir(parents=True)
    (tmp_path / "class" / "course" / "labs" / "lab02").mkdir(parents=True)
    return tmp_path / "class"


@pytest.fixture
def of(folder):
    return class_folder.read_class(folder)


def test_two_classes_on_one_machine_have_no_user_in_common(of):
    """Limits of processes and of memory count what a user has, whichever class it came from."""
    first, second = (room._next_user(replace(of, port=port)) for port in (8000, 8001))
    assert second - first >= len(of.students)


def test_a_new_class_has_its_students_and_two_passwords_that_only_its_owner_reads(folder, of):
    assert of.students == ("ann", "b.lee@x.org", "20231")
    assert len(of.password) >= 8  # the hub takes no shorter ones
    assert len(of.instructors_password) >= 32
    for path in (folder / "class.toml", of.handed_in, of.receipts, of.hub):
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_class_is_not_made_twice(folder, tmp_path):
    before = (folder / "class.toml").read_text()
    with pytest.raises(Problem, match="is a class already"):
        class_folder.make_class(folder, tmp_path / "students.txt")
    assert (folder / "class.toml").read_text() == before


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ann\nAnn Lee\n", "line 2: 'Ann Lee' is no login"),
        ("ann\n../bob\n", "line 2: '../bob' is no login"),
        ("..\n", "line 1: '..' is no login"),
        (".ann\n", "line 1: '.ann' is no login"),
        ("ann\nbob\nANN\n", "line 3: ann stands in line 1, too"),
        ("a" * 65, "line 1: 'a"),
        ("\n# ann\n", "has no students in it"),
    ],
)
def test_a_wrong_list_is_refused_by_its_line_and_makes_nothing(tmp_path, text, told):
    (tmp_path / "students.txt").write_text(text)
    with pytest.raises(Problem, match=re.escape(told)):
        class_folder.make_class(tmp_path / "class", tmp_path / "students.txt")
    assert not (tmp_path / "class").exists()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("colour = 3", "there is no setting colour"),
        ('port = "8000"', "port = '8000' is of the wrong kind"),
        ("port = true", "port = True is of the wrong kind"),
        ("live = 1", "live = 1 is of the wrong kind"),
        ("port = ", "Invalid value"),
        ('deadlines = { lab01 = "soon" }', "lab01: 'soon': write it as"),
    ],
)
def test_a_wrong_setting_is_named(folder, line, told):
    (folder / "class.toml").write_text(line)
    with pytest.raises(Problem, match=re.escape(told)):
        class_folder.read_class(folder)


def test_what_is_handed_in_lies_as_course_grade_reads_it(of):
    receipt = hand_ins.store(of, "ann", "lab01", "lab01_split_a_model.ipynb", NOTEBOOK, {"ex1": "passed"})
    assert (receipt.size, receipt.late, receipt.replaces, receipt.said) == (13, "", "", {"ex1": "passed"})
    entries = list(of.handed_in.iterdir())
    export = read_names(entries, "lab01")
    assert export.platform == "nbgrader"
    assert [(one.student, one.within) for one in export.whose[entries[0]]] == [("ann", "lab01")]
    assert (of.handed_in / "ann" / "lab01" / "lab01_split_a_model.ipynb").read_bytes() == NOTEBOOK


def test_a_later_one_replaces_an_earlier_one_which_is_kept(of):
    first = hand_ins.store(of, "ann", "lab01", "mine.ipynb", NOTEBOOK)
    second = hand_ins.store(of, "ann", "lab01", "lab01.ipynb", b'{"cells": [], "a": 1}')
    assert second.replaces == first.at
    assert [path.name for path in (of.handed_in / "ann" / "lab01").iterdir()] == ["lab01.ipynb"]
    assert len(list((of.receipts / "ann" / "lab01").iterdir())) == 2
    assert hand_ins.last_receipts(of, "ann") == {"lab01": second}
    assert hand_ins.receipts(of, "ann", "lab01") == [first, second]


def test_a_late_one_is_taken_and_says_so(of):
    late = replace(of, deadlines={"lab01": datetime.now(UTC) - timedelta(minutes=90)})
    assert hand_ins.store(late, "ann", "lab01", "a.ipynb", NOTEBOOK).late == "1 h 31 min after the deadline"
    assert hand_ins.store(late, "ann", "lab02", "a.ipynb", NOTEBOOK).late == ""


@pytest.mark.parametrize(
    ("student", "lab", "notebook", "told"),
    [
        ("../ann", "lab01", NOTEBOOK, "is no student's login"),
        ("ann", "lab77", NOTEBOOK, "there is no lab 'lab77'"),
        ("ann", "../..", NOTEBOOK, "there is no lab"),
        ("ann", "lab01", b"PK\x03\x04", "this is not a notebook"),
        ("ann", "lab01", b"[" * 100_000, "this is not a notebook"),
        ("ann", "lab01", b'{"cells": 3}', "this is not a notebook"),
        ("ann", "lab01", b" " * (50 * 2**20 + 1), "50 are taken"),
    ],
)
def test_what_cannot_be_handed_in_leaves_what_was(of, student, lab, notebook, told):
    hand_ins.store(of, "ann", "lab01", "lab01.ipynb", NOTEBOOK)
    with pytest.raises(Problem, match=re.escape(told)):
        hand_ins.store(of, student, lab, "lab01.ipynb", notebook)
    assert (of.handed_in / "ann" / "lab01" / "lab01.ipynb").read_bytes() == NOTEBOOK
    assert len(hand_ins.receipts(of, "ann", "lab01")) == 1


@pytest.mark.parametrize("name", ["../../bob/lab01/a.ipynb", ".a.ipynb", "a.py", "", "a\n.ipynb", "x" * 300 + ".ipynb"])
def test_a_students_name_for_a_file_leads_nowhere(of, name):
    assert hand_ins.store(of, "ann", "lab01", name, NOTEBOOK).file == "lab01.ipynb"
    assert [path.name for path in of.handed_in.rglob("*.ipynb")] == ["lab01.ipynb"]


@pytest.mark.parametrize("said", [None, "passed", ["ex1"], {"ex" * 100: "x" * 100}, dict.fromkeys(range(1000), 1)])
def test_a_statement_may_be_anything_and_stays_small(of, said):
    kept = hand_ins.store(of, "ann", "lab01", "a.ipynb", NOTEBOOK, said).said
    assert len(json.dumps(kept)) < 5_000


def test_a_receipt_that_a_full_disk_cut_off_hides_no_other(of):
    first = hand_ins.store(of, "ann", "lab01", "a.ipynb", NOTEBOOK)
    with (of.receipts / "ann" / "lab01.jsonl").open("a") as lines:
        lines.write('{"student": "an')
    last = hand_ins.store(of, "ann", "lab01", "a.ipynb", NOTEBOOK)
    assert hand_ins.receipts(of, "ann", "lab01") == [first, last]


def test_a_full_disk_leaves_the_notebook_before(of, monkeypatch):
    hand_ins.store(of, "ann", "lab01", "a.ipynb", NOTEBOOK)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hand_ins.os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        hand_ins.store(of, "ann", "lab01", "a.ipynb", b'{"cells": [1]}')
    assert (of.handed_in / "ann" / "lab01" / "a.ipynb").read_bytes() == NOTEBOOK
    assert not list(of.handed_in.rglob(".*.part"))


def test_each_student_has_a_port_that_linux_gives_to_no_other_program(of):
    first, second = (room.free_port(of, student) for student in of.students[:2])
    assert first != second
    assert max(first, second) < 32_768
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert room.free_port(of, of.students[0]) not in (first, second)


def test_the_roster_has_everybody_with_the_time_of_the_last(of, tmp_path):
    receipt = hand_ins.store(of, "ann", "lab01", "a.ipynb", NOTEBOOK)
    hand_ins.write_roster(of, "lab01", tmp_path / "roster.csv")
    assert (tmp_path / "roster.csv").read_text().splitlines() == [
        "Student,Submission time",
        f"ann,{receipt.at}",
        "b.lee@x.org,",
        "20231,",
    ]


def test_pages_are_given_back_to_those_whose_mark_is_sure_and_taken_from_the_others(of, tmp_path):
    ann, lee, number = of.students
    for student in (ann, lee):
        (tmp_path / f"{student}.html").write_text(f"page of {student}")
    assert results.give_back(of, "lab01", tmp_path, [ann, lee, number, "dora"]) == 2
    assert results.given_back(of, ann, "lab01") == f"page of {ann}"
    assert results.give_back(of, "lab01", tmp_path, [lee]) == 1
    assert results.given_back(of, ann, "lab01") == ""
    assert results.given_back(of, lee, "lab01") == f"page of {lee}"
    for student, lab in ((lee, "lab02"), (lee, "../lab01"), ("../class", "lab01"), ("dora", "lab01")):
        assert results.given_back(of, student, lab) == ""


def zipped(files):
    def bundle(path):
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(f"course/{name}", text)

    return bundle


def test_a_renewed_course_is_the_same_folder_for_rooms_that_go_on(of):
    start.renew_course(of, zipped({"README.md": "one", "utils/a.py": "a = 1", "utils/old/b.py": "b = 1"}))
    seen = os.open(of.course / "utils", os.O_RDONLY)  # as a room that was made before
    kept = (of.course / "README.md").stat().st_ino
    start.renew_course(of, zipped({"README.md": "one", "utils/a.py": "a = 2", "utils/new/c.py": "c = 1"}))
    assert sorted(os.listdir(seen)) == ["a.py", "new"]
    with open("a.py", opener=lambda name, _: os.open(name, os.O_RDONLY, dir_fd=seen)) as renewed:
        assert renewed.read() == "a = 2"
    os.close(seen)
    assert (of.course / "README.md").stat().st_ino == kept
    assert {path.name for path in of.course.iterdir()} == {"README.md", "utils"}
    assert not list(of.path.glob(".course-*"))


def test_the_instructor_is_told_how_students_log_in(folder, monkeypatch):
    monkeypatch.setattr(start, "renew_course", lambda *_: None)
    told = start.make_ready(folder, None, None)
    assert told.startswith("3 students. They open http://")
    assert told.endswith(f"with the password in {folder / class_folder.SETTINGS}.")
    with (folder / class_folder.CONFIG).open("a") as config:
        config.write('c.JupyterHub.authenticator_class = "generic-oauth"\n')
    assert start.make_ready(folder, None, None).endswith(f", as {folder / class_folder.CONFIG} says.")


def test_a_deadline_of_no_lab_is_refused_with_those_that_there_are(folder):
    path = folder / class_folder.SETTINGS
    path.write_text(path.read_text() + 'lab3 = "2026-12-01 23:59"\n')
    with pytest.raises(Problem, match=r"\[deadlines\]: there is no lab3. There are lab01, lab02"):
        class_folder.read_class(folder)


def test_a_port_that_another_program_has_is_told_before_the_hub_starts(of):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        with pytest.raises(Problem, match="this class runs already, or another program has it"):
            start.require_ports(replace(of, port=taken.getsockname()[1]))
        with pytest.raises(Problem, match="this class runs already"):
            start.require_ports(replace(of, port=taken.getsockname()[1] - 1))


def test_a_proxy_that_a_killed_hub_left_is_no_other_program(of, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(start, "_left_proxy", lambda _: True)
        start.require_ports(replace(of, port=taken.getsockname()[1]))
    monkeypatch.undo()
    (of.hub / "proxy.pid").write_text(f"{os.getpid()}\nmore")
    assert not start._left_proxy(of), "this process is no proxy"
