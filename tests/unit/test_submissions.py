"""What was handed in, as folders hold it: a file a student, a folder a student, and everything beside."""

import nbformat
import pytest

from utils.grading.submissions import (
    NotANotebook,
    Problem,
    find_submissions,
    read_code_cells,
    read_roster,
)

NAME = "lab01_split_a_model.ipynb"


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_file_or_a_folder_for_each_student(tmp_path):
    touch(tmp_path / "bob.ipynb", tmp_path / "ann" / "deep" / NAME, tmp_path / ".DS_Store", tmp_path / "__MACOSX" / "x")
    found = find_submissions(tmp_path, NAME)
    assert [(s.student, s.path) for s in found] == [
        ("ann", tmp_path / "ann" / "deep" / NAME),
        ("bob", tmp_path / "bob.ipynb"),
    ]


def test_which_notebook_of_a_folder(tmp_path):
    touch(tmp_path / "ann" / NAME, tmp_path / "ann" / "scratch.ipynb")
    touch(tmp_path / "ann" / ".ipynb_checkpoints" / NAME)
    touch(tmp_path / "bob" / "renamed.ipynb", tmp_path / "cat" / "a.ipynb", tmp_path / "cat" / "b.ipynb")
    ann, bob, cat = find_submissions(tmp_path, NAME)
    assert ann.path.name == NAME
    assert bob.path.name == "renamed.ipynb"
    assert cat.path is None
    assert cat.note == f"2 notebooks, and not one that is named {NAME}"


def test_the_roster_adds_who_is_missing(tmp_path):
    touch(tmp_path / "in" / "bob.ipynb")
    (tmp_path / "roster.csv").write_text('\ufeffstudent,group\n"ann",1\nbob,2\n\n', encoding="utf-8")
    assert read_roster(tmp_path / "roster.csv") == ["ann", "bob"]
    found = find_submissions(tmp_path / "in", NAME, ["ann", "bob"])
    assert [(s.student, s.path is None) for s in found] == [("ann", True), ("bob", False)]


def test_folders_that_cannot_be_graded(tmp_path):
    with pytest.raises(Problem, match="is not a folder"):
        find_submissions(tmp_path / "nowhere", NAME)
    with pytest.raises(Problem, match="is empty"):
        find_submissions(tmp_path, NAME)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b"hello", "is not a notebook"),
        (b"{}", "is not a notebook"),
        (b"[]", "is not a notebook"),
        (b"\xff\xfe\x00", "is not text"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "is not a notebook"),
        (b"[" * 100_000, "is not a notebook"),
    ],
)
def test_files_that_are_no_notebooks(tmp_path, content, says):
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    with pytest.raises(NotANotebook, match=says):
        read_code_cells(path)


def test_a_notebook_of_another_version_is_read(tmp_path):
    path = tmp_path / "old.ipynb"
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("x = 1")])])
    path.write_text(nbformat.v3.writes_json(old))
    assert read_code_cells(path) == ["x = 1"]


def test_a_notebook_that_is_too_large(tmp_path, monkeypatch):
    from utils.grading import submissions

    monkeypatch.setattr(submissions, "LARGEST_NOTEBOOK", 10)
    path = tmp_path / "big.ipynb"
    path.write_text(" " * 20)
    with pytest.raises(NotANotebook, match="the file has"):
        read_code_cells(path)
