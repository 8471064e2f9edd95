"""Files for learning platforms: the right mark to the right student, no guess, no formula, no student dropped."""

import csv
import io
import json
import random
import re
import subprocess
import sys
import zipfile

import pandas as pd
import pytest

from tests.unit.test_feedback import HOSTILE, a_lab
from tests.unit.test_roster import CANVAS_SPLIT
from utils.common.errors import Problem
from utils.grading.grade import Grade
from utils.grading.roster import read_gradebook
from utils.grading.tell.cells import as_csv, cell, plain
from utils.grading.tell.exports import write_exports


def made(student, total=5, status="ok", **more):
    return Grade(student, status, {"ex1": min(total, 2), "ex2": max(total - 2, 0)}, **more)


def table(path):
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def looked_at(folder):
    return {row["student"]: row for row in table(folder / "look_at.csv")}


def gradebook(text, folder):
    path = folder / "from_platform.csv"
    path.write_text(text, encoding="utf-8")
    return read_gradebook(path)


CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Lab 76 (901),Lab 77: Knit a scarf (902),Current Score
Manual Posting,,,,,,,
"    Points Possible",,,,,10,5,(read only)
"Lee, Ann",11,S11,ann@example.org,A,9,,90
"Müller, Zoë",12,S12,zoe@example.org,B,8,3,80
"Kaya, Cem",13,S13,cem@example.org,A,7,,70
"Kaya, Cem",14,S14,cem2@example.org,A,7,,70
"Ito, Eva",15,S15,eva@example.org,A,7,,70
"Student, Test",16,S16,,A,,,
"""
MOODLE = """\
\ufeffFirst name,Last name,ID number,Institution,Email address,Assignment: Lab 76 (Real)
Ann,Lee,m1,,Ann.Lee@example.org,9.00
Zoë,Müller,,,zoe@example.org,8.00
Cem,Kaya,m3,,,7.00
Eva,Ito,m4,,eva@example.org,-
"""
WORKSHEET = """\
Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments
Participant 501,Ann Lee,a@example.org,Submitted,,5.00,-,
Participant 502,Zoë Müller,z@example.org,Submitted,2.00,5.00,"Monday, 3 March 2025, 9:12 AM","Good,
so far"
Participant 503,Eva Ito,e@example.org,No submission,,5.00,-,
"""


# --- Canvas -------------------------------------------------------------------------------------------------------


def test_canvas_gets_its_own_ids_its_own_column_and_the_points_possible(tmp_path):
    grades = [made("leeann", 5, id="11"), made("Zoë Müller", 2), made("s15", 3)]
    said = write_exports(grades, a_lab(), tmp_path, gradebook(CANVAS, tmp_path)).said
    assert (tmp_path / "canvas.csv").read_text().splitlines() == [
        "Student,ID,SIS User ID,SIS Login ID,Section,Lab 77: Knit a scarf (902)",
        "    Points Possible,,,,,5",
        '"Lee, Ann",11,S11,ann@example.org,A,5',
        '"Müller, Zoë",12,S12,zoe@example.org,B,2',
        '"Ito, Eva",15,S15,eva@example.org,A,3',
    ]
    assert not (tmp_path / "moodle.csv").exists()
    assert any("3 marks" in line and "Knit a scarf (902)" in line for line in said)


def test_two_people_of_one_name_are_not_guessed_about(tmp_path):
    said = write_exports([made("Cem Kaya", 5)], a_lab(), tmp_path, gradebook(CANVAS, tmp_path)).said
    look = looked_at(tmp_path)
    assert "Kaya" not in (tmp_path / "canvas.csv").read_text()
    assert "more than one row" in look["Cem Kaya"]["why"]
    assert look["Cem Kaya"]["points"] == "5"
    assert any("look_at.csv" in line for line in said)


def test_a_number_tells_two_people_of_one_name_apart(tmp_path):
    write_exports([made("kayacem", 5, id="14"), made("Cem Kaya", 1)], a_lab(), tmp_path, gradebook(CANVAS, tmp_path))
    rows = {row["ID"]: row["Lab 77: Knit a scarf (902)"] for row in table(tmp_path / "canvas.csv")}
    assert rows == {"": "5", "13": "1", "14": "5"}


def test_no_student_of_the_class_or_the_gradebook_is_dropped(tmp_path):
    grades = [made("Ann Lee"), made("a stranger", 4), made("Eva Ito", 0, "missing", note="nothing was handed in")]
    write_exports(grades, a_lab(), tmp_path, gradebook(CANVAS, tmp_path))
    look = looked_at(tmp_path)
    assert look["a stranger"]["why"] == "no row of the platform's file is this student's"
    assert look["Eva Ito"]["why"] == "nothing was handed in"
    assert look["Eva Ito"]["points"] == ""
    assert look["Müller, Zoë"]["why"] == "in the platform's file, and no submission is this student's"
    assert "Student, Test" not in look
    assert [row["Student"] for row in table(tmp_path / "canvas.csv")] == ["    Points Possible", "Lee, Ann"]


def test_another_number_of_points_is_told(tmp_path):
    text = CANVAS.replace(",10,5,(read only)", ",10,100.0,(read only)")
    said = write_exports([made("Ann Lee")], a_lab(), tmp_path, gradebook(text, tmp_path)).said
    assert "canvas.csv: the platform counts to 100 points, and these marks are of 5." in said
    assert table(tmp_path / "canvas.csv")[0]["Lab 77: Knit a scarf (902)"] == "100.0"


def test_a_gradebook_without_the_lab_gets_a_new_column(tmp_path):
    text = CANVAS.replace("Lab 77: Knit a scarf (902)", "Exam (7)")
    said = write_exports([made("Ann Lee")], a_lab(), tmp_path, gradebook(text, tmp_path)).said
    assert table(tmp_path / "canvas.csv")[1]["Lab77: Knit a scarf"] == "5"
    assert any("no column of the gradebook is about lab77" in line for line in said)


def test_canvas_may_split_names_and_make_up_a_student(tmp_path):
    rows = gradebook(CANVAS_SPLIT, tmp_path)
    write_exports([made("Ann Lee"), made("Student", 1, id="4299")], a_lab(), tmp_path, rows)
    assert (tmp_path / "canvas.csv").read_text().splitlines() == [
        "LastName,FirstName,ID,SIS Login ID,Section,Lab 77: Knit a scarf (902)",
        "    Points Possible,,,,,5.00",
        "Lee,Ann,4242,ann@example.org,A,5",
    ]
    assert looked_at(tmp_path)["Student"]["why"] == "no row of the platform's file is this student's"


# --- what is a mark -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["timeout", "crash", "missing", "not-graded", "not-a-notebook", "memory"])
def test_what_is_not_sure_is_no_mark_and_no_zero(tmp_path, status):
    grades = [made("Ann Lee", 0, status, id="11"), made("Eva Ito", 0, "error", id="15")]
    for roster in (None, gradebook(CANVAS, tmp_path)):
        write_exports(grades, a_lab(), tmp_path, roster)
        assert "Lee" not in (tmp_path / "canvas.csv").read_text()
        assert looked_at(tmp_path)["Ann Lee"]["status"] == status
        assert looked_at(tmp_path)["Ann Lee"]["why"]
        assert table(tmp_path / "canvas.csv")[1]["ID"] == "15"  # a cell that raised is no crash: this is a real zero


def test_a_flag_holds_a_mark_back(tmp_path):
    write_exports([made("Ann Lee", 5, id="11", flags=["it replaced torch.equal"])], a_lab(), tmp_path)
    assert "Ann" not in (tmp_path / "canvas.csv").read_text()
    assert looked_at(tmp_path)["Ann Lee"]["why"] == "it replaced torch.equal"
    assert looked_at(tmp_path)["Ann Lee"]["points"] == "5"


# --- Moodle -------------------------------------------------------------------------------------------------------


def test_moodle_gets_only_rows_with_an_id_in_one_column(tmp_path):
    grades = [made("ann.lee", 5), made("Zoë Müller", 2), made("Cem Kaya", 3), made("m4", 1)]
    said = write_exports(grades, a_lab(), tmp_path, gradebook(MOODLE, tmp_path)).said
    assert (tmp_path / "moodle.csv").read_text().splitlines() == [
        "First name,Last name,Email address,Lab77: Knit a scarf (of 5)",
        "Ann,Lee,Ann.Lee@example.org,5",
        "Zoë,Müller,zoe@example.org,2",
        "Eva,Ito,eva@example.org,1",
    ]
    # A row without an id would go to the student of the row before.
    assert looked_at(tmp_path)["Cem Kaya"]["why"] == "moodle.csv: no Email address in the platform's file"
    assert any("'Email address'" in line for line in said)


def test_moodle_keeps_every_id_that_all_have(tmp_path):
    write_exports([made("Ann Lee"), made("Eva Ito", 1)], a_lab(), tmp_path, gradebook(MOODLE, tmp_path))
    header = (tmp_path / "moodle.csv").read_text().splitlines()[0]
    assert header == "First name,Last name,Email address,ID number,Lab77: Knit a scarf (of 5)"


def test_moodles_grading_worksheet_is_filled_in_and_its_comments_left_out(tmp_path):
    grades = [made("Ann Lee", 5, id="501"), made("Muller Zoe", 4, id="502"), made("Eva Ito", 0, "crash", id="503")]
    write_exports(grades, a_lab(), tmp_path, gradebook(WORKSHEET, tmp_path))
    assert (tmp_path / "moodle.csv").read_text().splitlines() == [
        "Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (grade)",
        "Participant 501,Ann Lee,a@example.org,5,5.00,-",
        'Participant 502,Zoë Müller,z@example.org,4,5.00,"Monday, 3 March 2025, 9:12 AM"',
    ]


def test_moodles_titles_are_kept_as_the_worksheet_has_them(tmp_path):
    text = WORKSHEET.replace("Maximum Grade", "Maximum grade").replace("5.00", "10.00")
    said = write_exports([made("Ann Lee", 4, id="501")], a_lab(), tmp_path, gradebook(text, tmp_path)).said
    assert (tmp_path / "moodle.csv").read_text().splitlines() == [
        "Identifier,Full name,Email address,Grade,Maximum grade,Last modified (grade)",
        "Participant 501,Ann Lee,a@example.org,4,10.00,-",
    ]
    assert "moodle.csv: the platform counts to 10 points, and these marks are of 5." in said


def test_a_file_that_is_not_written_does_not_stay_from_an_earlier_run(tmp_path):
    exports = tmp_path / "exports"
    write_exports([made("Ann Lee", id="501")], a_lab(), exports, gradebook(WORKSHEET, tmp_path))
    (exports / "mine.csv").write_text("kept")
    assert (exports / "moodle.csv").exists()
    said = write_exports([made("Ann Lee", 0, "crash", id="501")], a_lab(), exports, gradebook(WORKSHEET, tmp_path)).said
    assert any("moodle.csv is not written" in line for line in said)
    assert {path.name for path in exports.iterdir()} == {"look_at.csv", "mine.csv"}
    write_exports([made("Ann Lee", id="11")], a_lab(), exports, gradebook(CANVAS, tmp_path))
    assert {path.name for path in exports.iterdir()} == {"look_at.csv", "mine.csv", "canvas.csv"}


def test_without_a_table_only_canvas_is_told_and_by_its_own_numbers(tmp_path):
    """A number in Moodle's names may be a group's, and another student has the same."""
    said = write_exports([made("Ann Lee", 5, id="501"), made("bob", 2)], a_lab(), tmp_path).said
    assert not (tmp_path / "moodle.csv").exists()
    assert any(line.startswith("moodle.csv is not written without the table") for line in said)
    assert [row["ID"] for row in table(tmp_path / "canvas.csv")] == ["", "501", ""]
    assert any("gradescope.zip is not written" in line for line in said)
    assert looked_at(tmp_path) == {}


def test_a_participants_number_is_not_taken_for_anothers_id_number(tmp_path):
    text = MOODLE.replace(",m1,", ",4243,")
    write_exports([made("somebody", id="4243")], a_lab(), tmp_path, gradebook(text, tmp_path))
    assert "Ann" not in (tmp_path / "moodle.csv").read_text()
    assert looked_at(tmp_path)["somebody"]["points"] == "5"


# --- Gradescope ---------------------------------------------------------------------------------------------------

GRADESCOPE = (
    "First Name,Last Name,SID,Email,Role\nAnn,Lee,s1,Ann@Example.org,Student\nEva,Ito,s2,eva@example.org,Student\n"
)


def unpacked(folder, email):
    """Gradescope's folders, as its specification has them, with one student's submission."""
    root = folder / "autograder"
    with zipfile.ZipFile(folder / "gradescope.zip") as archive:
        archive.extractall(root / "source")
    (root / "run_autograder").write_bytes((root / "source" / "run_autograder").read_bytes())
    users = [{"email": email, "id": 1234, "name": "Student User"}]
    (root / "submission_metadata.json").write_text(json.dumps({"id": 1, "users": users}))
    done = subprocess.run([sys.executable, root / "run_autograder"], cwd=root, capture_output=True, text=True)
    return done, root / "results" / "results.json"


def test_gradescopes_autograder_hands_out_the_results(tmp_path):
    grades = [made("Ann Lee", 4), made("eva", 0, "crash")]
    write_exports(grades, a_lab(), tmp_path, gradebook(GRADESCOPE, tmp_path))
    done, path = unpacked(tmp_path, "ann@example.org")
    assert done.returncode == 0, done.stderr
    result = json.loads(path.read_text())
    assert result["score"] == 4
    assert [(test["number"], test["score"], test["max_score"]) for test in result["tests"]] == [
        ("ex1", 2, 2),
        ("ex2", 2, 3),
    ]
    assert result["output"].startswith("Knit a scarf (lab77), Ann Lee: 4 of 5 points")
    with zipfile.ZipFile(tmp_path / "gradescope.zip") as archive:
        assert {"setup.sh", "run_autograder"} <= set(archive.namelist())
        assert all(info.external_attr >> 16 & 0o111 for info in archive.infolist())


def test_the_staff_of_gradescopes_roster_is_not_asked_for(tmp_path):
    text = f"{GRADESCOPE}Pia,Prof,,pia@example.org,Instructor\n"
    write_exports([made("Ann Lee"), made("Eva Ito")], a_lab(), tmp_path, gradebook(text, tmp_path))
    assert list(looked_at(tmp_path)) == []


def test_whom_gradescopes_autograder_does_not_know_has_no_score(tmp_path):
    write_exports([made("Ann Lee", 4), made("eva", 0, "crash")], a_lab(), tmp_path, gradebook(GRADESCOPE, tmp_path))
    done, path = unpacked(tmp_path, "eva@example.org")
    assert done.returncode != 0
    assert not path.exists()
    assert "look_at.csv" in done.stderr


# --- safety -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@sum(A1)", " =1", "\t=1", "\x00=1", "\r\n=1", "＝1", "\u200e=1"])  # noqa: RUF001
def test_no_cell_is_a_formula(text):
    assert cell(text).startswith("'")


# What came out of `cell`, written with a comma between cells and read with another separator.
SPLIT = [
    *("x;=cmd|'/C calc'!A0", 'x;"=1"', 'x;""=1', ";=1", "=1;=2", "x; =1", "x;\t=1", "x|+1", "x||@sum(A1)", "x;=1;y;-1"),
    *("x;\u200e=1", "x;＝1", 'x";=1', '"x";"=1"', "x\n;=1"),  # noqa: RUF001
]


@pytest.mark.parametrize("text", SPLIT)
@pytest.mark.parametrize("separator", [";", "|", "\t", ","])
def test_no_part_of_a_cell_is_a_formula_wherever_a_spreadsheet_splits(text, separator):
    line = as_csv(["name", "note"], [["Ann", text], [text, "x"]])
    parts = [part for row in csv.reader(io.StringIO(line), delimiter=separator) for part in row]
    assert not [part for part in parts if part.strip(' "').startswith(("=", "+", "-", "@", "＝"))]  # noqa: RUF001


@pytest.mark.parametrize("text", [*SPLIT, "=1", "-", "a;b", "a;-b", "a|b", "-5", "it's; fine", "'"])
def test_a_cell_can_be_read_back(text):
    if not set(text) & set("\t\n\u200e"):
        assert plain(cell(text)) == text


def test_numbers_and_plain_text_stay_what_they_are():
    assert [cell(value) for value in (3, 2.5, 0.1 + 0.2, "3", "-", "a-b", "Lee, Ann", "")] == [
        *("3", "2.5", "0.3", "3", "-", "a-b", "Lee, Ann", "")
    ]


def test_hostile_names_are_text_in_every_file(tmp_path):
    grades = [made(f"{start}{HOSTILE}", 5, note="=" * 10**6, id="=1") for start in ("=", "+", "@", "-")]
    grades.append(made("=crashed", 0, "crash", note="=cmd|' /C calc'!A0", flags=["@flag\n=1"]))
    write_exports(grades, a_lab(), tmp_path)
    for path in tmp_path.glob("*.csv"):
        assert path.stat().st_size < 10_000
        for row in csv.reader(io.StringIO(path.read_text())):
            assert not [
                one for one in row if one.lstrip().startswith(("=", "+", "@")) or one.startswith("-") > (one == "-")
            ]


def test_an_id_that_would_be_a_formula_is_not_bent(tmp_path):
    text = CANVAS.replace("ann@example.org", "=ann")
    write_exports([made("Ann Lee")], a_lab(), tmp_path, gradebook(text, tmp_path))
    assert "formula" in looked_at(tmp_path)["Ann Lee"]["why"]
    assert "ann" not in (tmp_path / "canvas.csv").read_text()


def test_the_same_class_in_any_order_gives_the_same_bytes(tmp_path):
    grades = [made(f"s{n}@example.org", n % 6, id=str(n)) for n in range(30)]
    written = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        write_exports(random.Random(seed).sample(grades, 30), a_lab(), folder)
        written.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert set(written[0]) == {"canvas.csv", "gradescope.zip", "look_at.csv"}
    assert written[0] == written[1]


def test_what_is_no_gradebook_is_one_line(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x00\x81")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a.csv", CANVAS)
    (tmp_path / "README.md").write_text("# A course\n\nStudent, teacher, and all: *welcome*.\n")
    for name, says in {
        "a.csv": "a.csv is not a CSV",
        "a.zip": "a.zip is not a CSV",
        "nothing.csv": "nothing.csv does not exist",
        "README.md": "README.md is not a gradebook: its first line has no title that tells a student",
        "": "cannot be read as a CSV",
    }.items():
        with pytest.raises(Problem, match=re.escape(says)) as problem:
            read_gradebook(tmp_path / name)
        assert "\n" not in str(problem.value)


def test_a_gradebook_of_no_known_platform_is_still_used_for_its_ids(tmp_path):
    rows = pd.DataFrame([{"Matrikel": "1", "Name": "Ann Lee", "E-mail": "ann@example.org"}])
    said = write_exports([made("Ann Lee")], a_lab(), tmp_path, rows).said
    assert said[0].startswith("No platform is known by these columns: Matrikel, Name, E-mail.")
    assert unpacked(tmp_path, "ann@example.org")[0].returncode == 0


def test_a_semicolon_file_is_read(tmp_path):
    rows = gradebook("Student;ID;Section\nPoints Possible;;\nLee, Ann;11;A\n", tmp_path)
    assert list(rows.columns) == ["Student", "ID", "Section"]
    assert rows["Student"][1] == "Lee, Ann"
