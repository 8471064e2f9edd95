"""Which of a student's notebooks are judged, and the reasons for the others. The kernel is left out."""

import pytest

from tests.support.every_platform import (
    ALL,
    FULL,
    NAME,
    ONE,
    OTHER_LAB,
    RELEASED,
    TWO,
    notebook,
    saved,
    without_ids,
    zipped,
)
from utils.exercises.facts import load_lab
from utils.grading import grade as grading
from utils.grading.grade import Grade, grade_submission
from utils.grading.handed_in import reader
from utils.grading.handed_in.choosing import MOST_JUDGED, choose
from utils.grading.handed_in.reading import read_documents
from utils.grading.run.submissions import Submission

SCRATCH = saved(
    {"nbformat": 4, "cells": [{"cell_type": "code", "metadata": {}, "source": "print('try')", "outputs": []}]}
)


@pytest.fixture
def put(tmp_path):
    """Write what a student handed in: the paths."""

    def write(files):
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(content)
        return [tmp_path / name for name in files]

    return write


def chosen(paths):
    found = choose(read_documents(paths), "lab01")
    return [one.name for one in found.notebooks], found.status, found.note, found.flags


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({NAME: FULL, "scratch.ipynb": SCRATCH}, [NAME]),
        ({"scratch.ipynb": SCRATCH}, ["scratch.ipynb"]),
        ({NAME: RELEASED, "scratch.ipynb": SCRATCH}, ["scratch.ipynb"]),
        ({NAME: RELEASED, "mine.ipynb": FULL}, ["mine.ipynb"]),
        ({NAME: ONE, "mine.ipynb": saved(without_ids(notebook("ex1", "ex2")))}, [NAME, "mine.ipynb"]),
        ({NAME: FULL, "lab02.ipynb": OTHER_LAB}, [NAME]),
        ({"s/a.ipynb": FULL, "s/b/a.ipynb": FULL, "s/c.ipynb": FULL}, ["s/a.ipynb"]),
        ({"a.zip": zipped({"deep/in/x.ipynb": FULL, "notes.txt": b"see"})}, ["a.zip/deep/in/x.ipynb"]),
        ({"a.zip": zipped({f"{NAME} (1).txt": FULL})}, [f"a.zip/{NAME} (1).txt"]),
        ({"no_ending": FULL}, ["no_ending"]),
    ],
)
def test_every_notebook_of_the_lab_is_judged_and_no_other(put, files, names):
    assert chosen(put(files)) == (names, "", "", [])


def test_a_lab_is_recognised_without_the_names_of_its_cells(put):
    for name, content in {"lab01": FULL, "lab02": OTHER_LAB}.items():
        cells = [{**cell, "metadata": {}} for cell in reader.json.loads(content)["cells"]]
        paths = put({f"{name}.ipynb": saved({"nbformat": 4, "cells": cells})})
        assert chosen(paths)[1] == ("another-lab" if name == "lab02" else "")


def test_two_labs_in_one_notebook_are_this_one(put):
    both = notebook(*ALL)
    both["cells"] += reader.json.loads(OTHER_LAB)["cells"]
    assert chosen(put({"both.ipynb": saved(both)}))[0] == ["both.ipynb"]


def test_line_ends_and_runs_do_not_make_an_answer(put):
    content = notebook()  # run, and not answered
    for cell in content["cells"]:
        cell["source"] = "".join(cell["source"]).replace("\n", " \r\n") + "\n\n"
    assert chosen(put({NAME: saved(content)}))[1] == "untouched"


def test_words_alone_are_an_answer(put):
    content = notebook(ran=False)
    answer = next(cell for cell in content["cells"] if cell["metadata"].get("nbgrader", {}).get("grade_id") == "words")
    answer["source"] = "Because the loss is there."
    assert chosen(put({NAME: saved(content)}))[0] == [NAME]


def test_not_more_than_four_are_judged_and_that_is_told(put):
    files = {f"{n}.ipynb": saved({**notebook(), "cells": [*notebook()["cells"], a_cell(f"x = {n}")]}) for n in range(6)}
    names, _, _, flags = chosen(put(files))
    assert len(names) == MOST_JUDGED
    assert flags == ["6 different notebooks: 4 of them were judged"]


def a_cell(source):
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": []}


def test_of_what_is_no_notebook_each_reason_is_told(put):
    _, status, note, _ = chosen(put({"a.ipynb": b"", "b.ipynb": b"{", "c.pdf": b"%PDF"}))
    assert status == "not-a-notebook"
    assert "a.ipynb: the file is empty; b.ipynb: it is not a notebook: not JSON" in note
    assert "c.pdf" not in note
    _, _, note, _ = chosen(put({"a.zip": zipped({"lab.pdf": b"%PDF", "__MACOSX/._x.ipynb": b"\0\5"})}))
    assert note == "a zip without a notebook in it (lab.pdf): the .ipynb is needed"


# --- zips ---------------------------------------------------------------------------------------------------------


def test_zips_are_opened_within_bounds(put, monkeypatch):
    many = zipped({f"{n}.ipynb": b"{}" for n in range(reader.MOST_IN_ZIPS + 1)})
    assert "2001 files" in read_documents(put({"many.zip": many}))[0].why
    big = zipped({f"{n}.ipynb": b" " * 45_000_000 for n in range(5)})
    assert [one.why for one in read_documents(put({"big.zip": big}))] == [
        *["the file is empty"] * 4,
        "the zips unpack to more than 200 MB: unpack them by hand",
    ]
    few = read_documents(put({"few.zip": zipped({f"{n:02}.ipynb": b"x" for n in range(60)})}))
    assert len(few) == reader.MOST_FILES + 1
    assert few[-1].why == "not read: more than 40 files"


def test_what_a_zip_of_a_student_may_not_do(put, tmp_path):
    paths = put({"a.zip": zipped({"../../escaped.ipynb": FULL, ".hidden/x.ipynb": FULL})})
    assert "a zip without a notebook" in read_documents(paths)[0].why
    content = bytearray(zipped({NAME: FULL}))
    at = content.find(b"PK\x01\x02")
    content[at + 24 : at + 28] = (10).to_bytes(4, "little")  # it says ten bytes, and holds more
    assert "cannot be" in read_documents(put({"b.zip": bytes(content)}))[0].why
    content = bytearray(zipped({NAME: FULL}))
    content[content.find(b"PK\x01\x02") + 8] |= 1
    assert "protected by a password" in read_documents(put({"c.zip": bytes(content)}))[0].why
    assert [path.name for path in tmp_path.rglob("*escaped*")] == []


# --- several notebooks, one grade ----------------------------------------------------------------------------------


def test_where_points_differ_a_person_is_asked_and_where_they_do_not_it_is_sure(put, monkeypatch):
    lab = load_lab("lab01")

    def run(student, document, lab, limits):
        points = {"one.ipynb": 1, "two.ipynb": 2, "same.ipynb": 2}[document.name]
        words = {} if document.name == "same.ipynb" else {"words": "w"}
        return Grade(student, "ok", {"ex1": points}, free_text=words)

    monkeypatch.setattr(grading, "_run", run)

    def grade(files, doubts=()):
        paths = put(files)
        return grade_submission(Submission("ann", paths[0], "", "7", more=tuple(paths[1:]), doubts=doubts), lab)

    differ = grade({"one.ipynb": ONE, "two.ipynb": TWO})
    assert differ.flags == ["2 notebooks: one.ipynb 1 of 10, two.ipynb 2 of 10: say which counts in overrides.csv"]
    assert (differ.total, differ.id) == (2, "7")
    alike = grade({"same.ipynb": FULL, "two.ipynb": TWO})
    assert alike.flags == ["2 notebooks with the same points and other answers in words: those of same.ipynb are shown"]
    assert grade({"two.ipynb": TWO, "one.ipynb": TWO}).flags == []
    assert grade({"two.ipynb": TWO}, doubts=("whose?",)).flags == ["whose?"]
