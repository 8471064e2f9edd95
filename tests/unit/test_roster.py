"""Who is in the class: platforms' files as they are, lists of names, and no student taken for another."""

import pytest

from utils.common.errors import Problem
from utils.grading.roster import display_name, match, platform_id, read_gradebook, read_roster, students_in
from utils.grading.run.submissions import Submission

# As lib/gradebook_exporter.rb of Canvas writes it; the second with its setting for split names.
CANVAS = """\
\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Lab 76 (901),Lab 77: Knit a scarf (902),Current Score
,,,,,,Manual Posting,
    Points Possible,,,,,10.00,5.00,(read only)
"Lee, Ann",4242,S11,ann@example.org,"A and B",9.00,,90.00
"Ng, Bo",4243,S12,bo@example.org,A,N/A,EX,
"Student, Test",4299,,0f3a,A,,,
"""
CANVAS_SPLIT = """\
LastName,FirstName,ID,SIS Login ID,Section,Lab 77: Knit a scarf (902)
    Points Possible,,,,,5.00
Lee,Ann,4242,ann@example.org,A,
Ng,Bo,4243,bo@example.org,A,
Student,Test,4299,0f3a,A,
"""
# As grade/export/txt of Moodle writes it, and an older one, with semicolons.
MOODLE = """\
"First name","Last name","ID number",Institution,Department,"Email address","Assignment: Lab 77 (Real)","Course total (Real)","Last downloaded from this course"
Ann,Lee,m1,"Moodle HQ","Rock on!",ann@example.org,-,9.00,1763770000
Bo,Ng,,,,bo@example.org,3.00,-,1763770000
"""  # noqa: E501
MOODLE_OLD = """\
"First name";Surname;"ID number";"Email address";"Course total";"Last downloaded from this course"
Ann;Lee;m1;ann@example.org;9,00;1763770000
Bo;Ng;;bo@example.org;-;1763770000
"""
WORKSHEET = """\
Identifier,"Full name","ID number","Email address",Status,Grade,"Maximum Grade","Grade can be changed",\
"Last modified (submission)","Last modified (grade)","Feedback comments"
"Participant 4242","Ann Lee",m1,ann@example.org,"Submitted for grading - ",,5.00,Yes,"Monday, 3 March 2025, 9:12 AM",-,
"Participant 4243","Bo Ng",m2,bo@example.org,"No submission - ",,5.00,Yes,-,-,"<p>Where
are you?</p>"
"""
BLIND = """\
Identifier,Status,Grade,"Maximum Grade","Grade can be changed","Last modified (submission)","Last modified (grade)"
"Participant 4242","Submitted for grading - ",,5.00,Yes,"Monday, 3 March 2025, 9:12 AM",-
"Participant 4243","No submission - ",,5.00,Yes,-,-
"""
GRADESCOPE = """\
First Name,Last Name,SID,Email,Role,Section
Ann,Lee,s1,Ann@Example.org,Student,A
Bo,Ng,s2,bo@example.org,Student,A
Pia,Prof,,pia@example.org,Instructor,
Tim,Tutor,,tim@example.org,TA,
"""
SPLIT, WHOLE = ["Ann Lee", "Bo Ng"], ["Lee, Ann", "Ng, Bo"]
EXPORTS = {
    "Canvas": (CANVAS, WHOLE),
    "Canvas, split names": (CANVAS_SPLIT, SPLIT),
    "Moodle": (MOODLE, SPLIT),
    "Moodle with a mark at its beginning": (f"\ufeff{MOODLE}", SPLIT),
    "Moodle, older": (MOODLE_OLD, SPLIT),
    "worksheet": (WORKSHEET, SPLIT),
    "blind worksheet": (BLIND, ["Participant 4242", "Participant 4243"]),
    "Gradescope": (GRADESCOPE, SPLIT),
}


def written(folder, text):
    path = folder / "class.csv"
    path.write_text(text, encoding="utf-8")
    return path


def read(folder, text):
    return [display_name(row) for row in read_roster(written(folder, text))]


@pytest.mark.parametrize("platform", EXPORTS)
def test_a_platforms_file_is_its_students(tmp_path, platform):
    text, students = EXPORTS[platform]
    assert read(tmp_path, text) == students
    assert read(tmp_path, text.replace("\n", "\r\n")) == students
    assert [display_name(row) for row in students_in(read_gradebook(written(tmp_path, text)))] == students


@pytest.mark.parametrize(
    "text",
    [
        "ann\nBo Ng\n",
        "\ufeffann\r\n\r\n  Bo Ng  \r\n",
        'student,group\n"ann",1\nBo Ng,2\n\n',
        "ann,1\nBo Ng,2\n",
        "ann;x@example.org\nBo Ng;y@example.org\n",
        "Student\nann\nBo Ng",
        "Name,E-Mail\nann,x@example.org\nBo Ng,y@example.org\n",
        "E-Mail,Name\nx@example.org,ann\ny@example.org,Bo Ng\n",
        "ann,student\nBo Ng,student\n",
        "ann\nBo Ng\nann\n",
        "student,email\nann,x@example.org\nBo Ng,y@example.org\nann,x@example.org\n",
    ],
)
def test_a_list_of_names_is_one_a_line_or_first_in_a_csv(tmp_path, text):
    assert read(tmp_path, text) == ["ann", "Bo Ng"]


def test_a_line_of_one_column_is_one_name(tmp_path):
    assert read(tmp_path, 'Student\nLee, Ann\n"Ng, Bo"\n') == read(tmp_path, "Student\nLee,Ann\nNg, Bo\n") == WHOLE


def test_an_empty_list_has_no_students(tmp_path):
    assert read(tmp_path, "") == read(tmp_path, "\n\n") == []


def test_what_is_no_list_is_one_line(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00\x00\x81")
    (tmp_path / "b.csv").write_text("student,group\nann,1\nbo,2,3\n")
    unread = "cannot be read as a list of students"
    for name, says in {
        "a.csv": "a.csv is not a CSV",
        "b.csv": unread,
        "nothing.csv": "nothing.csv does not exist",
        "": unread,
    }.items():
        with pytest.raises(Problem, match=says) as problem:
            read_roster(tmp_path / name)
        assert "\n" not in str(problem.value)


# --- whose row is whose -----------------------------------------------------------------------------------------


def person(name, number=""):
    return Submission(name, None, "", number)


@pytest.mark.parametrize("platform", EXPORTS)
def test_a_student_told_by_a_number_an_id_or_a_name_has_a_row(tmp_path, platform):
    rows = read_roster(written(tmp_path, EXPORTS[platform][0]))
    ways = [person("Ann Lee"), person("lee_ann"), person("Lee, Ann"), person("ANNLEE"), person("ann@example.org")]
    ways = [way for way in ways if platform != "blind worksheet"]
    ways += [person("somebody", "4242")] if platform_id(rows[0]) else []
    for ann in ways:
        found = match([ann, person("a stranger", "77")], rows)
        assert found.rows == {ann.student: 0}, ann
        assert (found.free, found.doubts) == ([1], {"a stranger": set()})


def test_two_possibilities_are_none():
    rows = [{"Name": "Kaya, Cem", "SID": "1"}, {"Name": "Cem Kaya", "SID": "2"}, {"Name": "Eva Ito", "SID": "3"}]
    found = match([person("Cem Kaya"), person("Eva Ito"), person("ito eva")], rows)
    assert found.rows == {}
    assert found.doubts == {"Cem Kaya": {0, 1}, "Eva Ito": {2}, "ito eva": {2}}
    assert found.free == [0, 1, 2]


def test_a_platforms_number_is_no_students_own_id():
    # Moodle counts participants, and a school its students: the same number may be two people.
    rows = [{"First name": "Ann", "Last name": "Lee", "ID number": "4243", "Email address": "ann@example.org"}]
    assert match([person("Bo Ng", "4243")], rows).rows == {}
