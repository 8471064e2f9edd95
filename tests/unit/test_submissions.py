"""What was handed in, as folders hold it: a file a student, a folder a student, and everything beside."""

import json
import os
import resource
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest

from tests.unit.test_roster import EXPORTS
from utils.exercises.facts import load_lab
from utils.grading.grade import grade_submission
from utils.grading.handed_in import reading
from utils.grading.handed_in.reader import LARGEST_FILE
from utils.grading.handed_in.reading import LONGEST_ANSWER, read_documents
from utils.grading.roster import read_roster
from utils.grading.run.submissions import Problem, Submission, file_stem, find_submissions, handed_in

NAME = "lab01_split_a_model.ipynb"


def touch(*paths):
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_a_file_or_a_folder_for_each_student(tmp_path):
    touch(tmp_path / "bob.ipynb", tmp_path / "ann" / "deep" / NAME, tmp_path / ".DS_Store", tmp_path / "__MACOSX" / "x")
    touch(tmp_path / "Thumbs.db", tmp_path / "desktop.ini")
    found = find_submissions(tmp_path, NAME)
    assert [(s.student, s.path) for s in found] == [
        ("ann", tmp_path / "ann" / "deep" / NAME),
        ("bob", tmp_path / "bob.ipynb"),
    ]


def test_the_files_of_a_folder_are_one_students(tmp_path):
    touch(tmp_path / "ann" / NAME, tmp_path / "ann" / "scratch.ipynb", tmp_path / "ann" / "__MACOSX" / f"._{NAME}")
    touch(tmp_path / "ann" / ".ipynb_checkpoints" / NAME)
    touch(tmp_path / "bob" / "renamed.ipynb", tmp_path / "cat" / "a.ipynb", tmp_path / "cat" / "b" / "b.ipynb")
    found = {one.student: [path.name for path in one.files] for one in find_submissions(tmp_path, NAME)}
    assert found == {"ann": [NAME, "scratch.ipynb"], "bob": ["renamed.ipynb"], "cat": ["a.ipynb", "b.ipynb"]}


def with_roster(folder, text, *students):
    """(student, note) of each submission, where `students` handed in and `text` is the class."""
    touch(*(folder / "in" / student / NAME for student in students))
    (folder / "class.csv").write_text(text, encoding="utf-8")
    found = find_submissions(folder / "in", NAME, read_roster(folder / "class.csv"))
    return [(one.student, one.note) for one in found]


NOTHING = "nothing was handed in"


def test_the_roster_adds_who_is_missing(tmp_path):
    assert with_roster(tmp_path, '\ufeffstudent,group\n"ann",1\nbob,2\n\n', "bob") == [("ann", NOTHING), ("bob", "")]


@pytest.mark.parametrize("platform", EXPORTS)
def test_who_handed_in_under_another_name_is_not_missing_too(tmp_path, platform):
    text, (_, bo) = EXPORTS[platform]
    # A name in another order, or Moodle's number where it marks blindly.
    ann = "Participant_4242_assignsubmission_file" if platform == "blind worksheet" else "lee ann"
    found = with_roster(tmp_path, text, ann)
    assert len(found) == 2
    assert (bo, NOTHING) in found


def test_who_is_known_by_the_platforms_number_is_not_missing_too(tmp_path):
    found = with_roster(tmp_path / "canvas", EXPORTS["Canvas"][0], f"annie_4242_99887_{NAME}")
    assert found == [("Ng, Bo", NOTHING), ("annie", "")]
    found = with_roster(tmp_path / "moodle", EXPORTS["worksheet"][0], "A. Lee_4242_assignsubmission_file")
    assert found == [("A. Lee", ""), ("Bo Ng", NOTHING)]


def test_students_of_one_name_are_told_apart_by_their_numbers(tmp_path):
    text = "Student,ID,SIS Login ID,Section\n" + "".join(f'"Kaya, Cem",{n},c{n}@example.org,A\n' for n in (13, 14, 15))
    folders = [f"Cem Kaya_{n}_assignsubmission_file" for n in (13, 14)]
    assert with_roster(tmp_path, text, *folders) == [
        ("Cem Kaya (13)", ""),
        ("Cem Kaya (14)", ""),
        ("Kaya, Cem (15)", NOTHING),
    ]


def test_who_may_be_one_of_two_is_not_guessed_about(tmp_path):
    text = "Name,SID\nCem Kaya,13\nCem Kaya,14\n"
    perhaps = "nothing was handed in, unless it is 'Kaya Cem': that fits others, too"
    found = with_roster(tmp_path, text, "Kaya Cem")
    assert found == [("Cem Kaya (13)", perhaps), ("Cem Kaya (14)", perhaps), ("Kaya Cem", "")]


def test_names_of_the_same_words_are_two_people(tmp_path):
    assert with_roster(tmp_path, "Lee Ann\nAnn Lee\n", "Ann Lee", "Lee Ann") == [("Ann Lee", ""), ("Lee Ann", "")]


def test_folders_that_cannot_be_graded(tmp_path):
    with pytest.raises(Problem, match=r"nowhere does not exist\. Name the folder, or the zip"):
        find_submissions(tmp_path / "nowhere", NAME)
    with pytest.raises(Problem, match="is empty"):
        find_submissions(tmp_path, NAME)


def reason(path):
    """Why a file is no notebook."""
    (found,) = read_documents([path])
    assert not found.cells
    return found.why


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"hello", "is not a notebook"),
        (b"{}", "is not a notebook"),
        (b"[]", "is not a notebook"),
        (b"\xff\xfe\x00", "is not text"),
        (b'{"cells": 3, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}', "is not a notebook"),
        (b'{"cells": [], "nbformat": 4, "nbformat_minor": NaN}', "is not a notebook"),
        (b'{"cells": [3], "nbformat": 4, "nbformat_minor": 5}', "is not a notebook: cell 1 is no cell"),
        (b'{"cells": [{"cell_type": "code", "source": [3]}], "nbformat": 4}', "is not a notebook: cell 1 is no cell"),
        (b'{"nbformat": 4, "cells": [', "cut off: was it uploaded whole?"),
        (b"[" * 100_000, "lists within lists, too deep"),
        ("# Müller".encode("latin-1"), "it is not text in UTF-8"),
        (b"%PDF-1.4", "a PDF, and no notebook: the .ipynb is needed"),
        (b"\n<!DOCTYPE html>", "a web page, and no notebook: the .ipynb is needed"),
        (b"Rar!\x1a", "a RAR archive, which is not opened here"),
        (b"PK\x03\x04\xff\xfe", "a zip that cannot be opened"),
    ],
)
def test_files_that_are_no_notebooks(tmp_path, content, says):
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    assert says in reason(path)


@pytest.mark.parametrize(
    ("name", "kind"), [("a.py", "a Python script"), ("a.docx", "a Word document"), ("a.html", "a web page")]
)
def test_what_a_file_is_instead_is_said_with_what_to_do(tmp_path, name, kind):
    path = tmp_path / name
    path.write_bytes(b"PK\x03\x04" if name.endswith("docx") else b"print(1)")
    assert reason(path) == f"{kind}, and no notebook: the .ipynb is needed"


NOTEBOOK = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x = 'ä'")]))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le"])
def test_a_notebook_with_a_mark_at_its_beginning_is_read(tmp_path, encoding):
    path = tmp_path / "x.ipynb"
    path.write_bytes((("\ufeff" if encoding == "utf-16-le" else "") + NOTEBOOK).encode(encoding))
    assert [one.code for one in read_documents([path])] == [["x = 'ä'"]]


def test_a_notebook_of_another_version_is_read(tmp_path):
    path = tmp_path / "old.ipynb"
    old = nbformat.v3.new_notebook(worksheets=[nbformat.v3.new_worksheet(cells=[nbformat.v3.new_code_cell("x = 1")])])
    path.write_text(nbformat.v3.writes_json(old))
    assert [one.code for one in read_documents([path])] == [["x = 1"]]


def test_a_notebook_that_is_too_large(tmp_path):
    path = tmp_path / "big.ipynb"
    path.touch()
    os.truncate(path, 60_000_000)
    assert reason(path) == "it is too large (60 MB, at most 50): save it without outputs"
    with zipfile.ZipFile(tmp_path / "big.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path, NAME)
    (found,) = read_documents([tmp_path / "big.zip"])
    assert (found.name, found.why) == (
        f"big.zip/{NAME}",
        "it is too large (60 MB, at most 50): save it without outputs",
    )


# A megabyte of each takes the grader a hundred, read as data.
BOMBS = {
    "lists": ('{"nbformat": 4, "cells": [], "metadata": [' + "{}," * 350_000 + "1]}", "350,003 lists and objects"),
    "cells": (
        '{"nbformat": 4, "cells": [' + '{"cell_type": "code"},' * 2100 + "{}]}",
        "2,101 cells, and at most 2,000",
    ),
    "values": ('{"nbformat": 4, "cells": [], "metadata": [' + "1," * 3_100_000 + "1]}", "more than 3,000,000 values"),
    "strings": (
        '{"nbformat": 4, "cells": [], "metadata": [' + '"",' * 2_100_000 + "1]}",
        "more than 2,000,000 strings",
    ),
    "depth": ('{"nbformat": 4, "cells": [], "metadata": ' + '{"a":' * 200_000 + "1" + "}" * 200_000 + "}", "too deep"),
    "digits": ('{"nbformat": ' + "9" * 4000 + ', "cells": []}', "a number of more than 400 digits"),
    "code": (json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": "x" * 2_100_000}]}), "2 million"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_would_fill_the_memory_is_refused_and_not_read(tmp_path, bomb):
    content, says = BOMBS[bomb]
    (tmp_path / "bomb.ipynb").write_text(content)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert says in reason(tmp_path / "bomb.ipynb")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000, "kB: the grader itself has not read it"


@pytest.mark.parametrize("ends", ["os.abort()", "raise SystemExit(1)", "os.kill(os.getpid(), signal.SIGXCPU)"])
def test_a_reader_that_ends_is_told(tmp_path, monkeypatch, ends):
    dies = tmp_path / "reader.py"
    dies.write_text(f"import os, signal; {ends}")
    monkeypatch.setattr(reading.reader, "__file__", str(dies))
    (tmp_path / "x.ipynb").write_text(NOTEBOOK)
    (found,) = read_documents([tmp_path / "x.ipynb"])
    assert (found.name, found.why) == ("x.ipynb", "reading it takes more than 20 s or 1 GB: save it without outputs")


def test_a_reader_that_the_machine_kills_is_no_fault_of_the_notebook(tmp_path, monkeypatch):
    dies = tmp_path / "reader.py"
    dies.write_text("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    monkeypatch.setattr(reading.reader, "__file__", str(dies))
    (tmp_path / "x.ipynb").write_text(NOTEBOOK)
    grade = grade_submission(Submission("ann", tmp_path / "x.ipynb"), load_lab("lab01"))
    assert (grade.status, grade.note) == ("not-graded", "the process that reads it was killed: is the memory full?")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_the_limits_of_the_reader_hold():
    """Where its own counting would miss something, the system ends it."""
    limits = "import reader, resource; reader._limit(); print(*(resource.getrlimit(kind)[0] for kind in "
    limits += "(resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE)))"
    command = [sys.executable, "-S", "-c", limits]
    told = subprocess.check_output(command, cwd=Path(reading.reader.__file__).parent, text=True)
    assert told.split() == ["1000000000", "20", "0"]


# --- zips, and the names of learning platforms ------------------------------------------------------------------


def zipped(path, files, **extra):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
        for info, content in extra.get("infos", ()):
            archive.writestr(info, content)
    return path


def students(place, roster=()):
    with handed_in(place, NAME, roster) as found:
        return [(s.student, s.id, s.path and s.path.read_bytes(), s.note) for s in found]


def test_a_zip_of_moodle(tmp_path):
    place = zipped(
        tmp_path / "moodle.zip",
        {
            f"Ann Lee_4711_assignsubmission_file/{NAME}": b"ann",
            "Ann Lee_4711_assignsubmission_file/notes.txt": b"x",
            f"José_4712_assignsubmission_file_{NAME}": b"jose",
        },
    )
    assert students(place) == [("Ann Lee", "4711", b"ann", ""), ("José", "4712", b"jose", "")]


def test_a_zip_of_canvas(tmp_path):
    place = zipped(
        tmp_path / "submissions.zip",
        {f"leeann_4242_99887_{NAME}": b"ann", f"oneilbob_LATE_4243_99888_{NAME}": b"bob"},
    )
    assert students(place) == [("leeann", "4242", b"ann", ""), ("oneilbob", "4243", b"bob", "")]


def test_a_zip_with_one_more_folder_around_it(tmp_path):
    place = zipped(tmp_path / "a.zip", {f"export/submission_1/{NAME}": b"1", f"export/submission_2/{NAME}": b"2"})
    assert [s[0] for s in students(place)] == ["submission_1", "submission_2"]
    alone = zipped(tmp_path / "b.zip", {f"ann/{NAME}": b"1"})
    assert [s[0] for s in students(alone)] == ["ann"]


def test_what_a_zip_may_not_do(tmp_path):
    link = zipfile.ZipInfo("link.ipynb")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    bomb = b"0" * (LARGEST_FILE + 1)
    place = zipped(
        tmp_path / "evil.zip",
        {
            "ann.ipynb": b"ann",
            "../escaped.ipynb": b"no",
            "/tmp/absolute.ipynb": b"no",
            "//tmp/absolute.ipynb": b"no",
            "C:\\windows.ipynb": b"no",
            "ann.ipynb/below_a_file.ipynb": b"no",
            "bomb.ipynb": bomb,
        },
        infos=[(link, "/etc/passwd")],
    )
    with handed_in(place, NAME) as found:
        assert [one.student for one in found] == ["ann", "bomb"]
        assert found[0].path.read_bytes() == b"ann"
        assert found[1].path.stat().st_blocks == 0, "its size is there, and nothing else"
        assert [one.why for one in read_documents(found[1].files)] == [
            "it is too large (50 MB, at most 50): save it without outputs"
        ]
    assert not (tmp_path / "escaped.ipynb").exists()
    (tmp_path / "no.zip").write_text("no zip")
    with pytest.raises(Problem, match="not a zip file"), handed_in(tmp_path / "no.zip", NAME):
        pass


def test_a_link_is_not_followed(tmp_path):
    folder = tmp_path / "in"
    (folder / "bob").mkdir(parents=True)
    (tmp_path / "secret.ipynb").write_text("secret")
    (folder / "ann.ipynb").symlink_to(tmp_path / "secret.ipynb")
    (folder / "bob" / NAME).symlink_to(tmp_path / "secret.ipynb")
    (folder / "cat").symlink_to(tmp_path)
    assert [(s[0], s[2]) for s in students(folder)] == [("ann", None), ("bob", None), ("cat", None)]


@pytest.mark.parametrize("student", ["ann", "Ann Lee", "../../etc", "a/b", "", ".", "a\nb", "x" * 500, "José", "Ω'\0"])
def test_a_file_about_a_student_has_a_name_of_its_own(student):
    stem = file_stem(student)
    assert stem not in ("", ".", "..")
    assert not set("/\\\0\n") & set(stem)
    assert len(stem.encode()) < 200
    assert stem != file_stem(student + "x")
    assert file_stem("Ann Lee") == "Ann Lee"


def test_answers_in_words_are_read_by_the_name_of_their_cell(tmp_path):
    about = {"nbgrader": {"grade_id": "why", "solution": True, "grade": True, "points": 0}}
    cells = [nbformat.v4.new_markdown_cell("Because " * 1000, metadata=about), nbformat.v4.new_markdown_cell("other")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "a.ipynb")
    (found,) = read_documents([tmp_path / "a.ipynb"])
    assert list(found.words) == ["why"]
    assert found.words["why"].startswith("Because")
    assert len(found.words["why"]) == LONGEST_ANSWER
