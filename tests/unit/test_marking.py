"""What an instructor decides: it counts, is shown, outlives every run, and a fault in it is one line."""

import csv
import io

import pytest

from tests.support.notebooks import LABS
from tests.unit.test_exports import CANVAS, gradebook, looked_at, table
from tests.unit.test_feedback import HOSTILE, a_lab, is_harmless
from tests.unit.test_report import section
from utils.common.errors import Problem
from utils.exercises.facts import Finding, load_lab
from utils.grading.grade import STATUSES, Grade
from utils.grading.marking import overrides, words
from utils.grading.marking.by_hand import Students
from utils.grading.marking.late import deadline
from utils.grading.marking.mark import InWords, Late, Mark, Override, as_mark, most_of
from utils.grading.marking.marking import Marking
from utils.grading.marking.outline import lab_outline
from utils.grading.roster import students_in
from utils.grading.run.submissions import Submission
from utils.grading.tell.cells import cell
from utils.grading.tell.exports import write_exports, write_grades
from utils.grading.tell.feedback import student_page, student_text
from utils.grading.tell.report import class_page

ODD = "Ann;=1+1"
STUDENTS = Students(
    [
        Submission("Ann Lee", None, id="501"),
        Submission("Bo Ng", None, id="502"),
        Submission(ODD, None),
        Submission("=Eve", None),
    ]
)


def made(student="Ann Lee", ex1=2, ex2=0, status="ok", **more):
    findings = {"ex1": [Finding("the needle is there", ex1 > 0)], "ex2": [Finding("the wool is there", ex2 > 0, "No.")]}
    return Mark(student, status, {"ex1": ex1, "ex2": ex2}, findings=findings if status == "ok" else {}, **more)


# --- overrides.csv ------------------------------------------------------------------------------------------------


def read(tmp_path, text, most=5):
    path = tmp_path / "overrides.csv"
    path.write_text(text, encoding="utf-8")
    return overrides.read_overrides(path, STUDENTS, a_lab(), most)


def test_overrides_are_read_as_a_spreadsheet_writes_them(tmp_path):
    rows = 'student,exercise,points,reason\nAnn Lee,ex2,3,"right, but renamed"\n,,,\n502,TOTAL,"2,5",\n'
    found = {
        "Ann Lee": {"ex2": Override(3, "right, but renamed")},
        "Bo Ng": {"total": Override(2.5, "")},
    }
    assert read(tmp_path, rows) == found
    semicolons = "\ufeffStudent;Exercise;Points;Reason\r\nAnn Lee;ex2;3;right, but renamed\r\nBo Ng;total;2,5;\r\n"
    assert read(tmp_path, semicolons) == found
    assert read(tmp_path, "student,exercise,points,reason\n") == read(tmp_path, "") == {}
    assert overrides.read_overrides(tmp_path / "none.csv", STUDENTS, a_lab(), 5) == {}


def test_a_student_is_called_as_in_grades_csv_or_by_the_own_name(tmp_path):
    file = io.StringIO()
    csv.writer(file).writerows([["student", "exercise", "points"], [cell(ODD), "ex1", "1"], ["'=Eve", "ex1", "0"]])
    assert list(read(tmp_path, file.getvalue())) == [ODD, "=Eve"]
    assert list(read(tmp_path, f"student,exercise,points\n{ODD},ex1,1\n")) == [ODD]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("Cem,ex1,1,", "line 3: no student in this class is called 'Cem': write the name as in grades.csv"),
        ("Ann Lee,ex9,1,", "line 3: 'ex9' is none of ex1, ex2, total, late"),
        ("Ann Lee,ex1,3,", "line 3: 3 points, and 2 is the most"),
        ("Ann Lee,ex1,-1,", "line 3: points are a number, and '-1' is none"),
        ("Ann Lee,ex1,nan,", "'nan' is none"),
        ("Ann Lee,ex1,1e3,", "'1e3' is none"),
        ("Ann Lee,ex1,,", "'' is none"),
        ("Ann Lee,total,6,", "6 points, and 5 is the most"),
        ("Bo Ng,ex1,1,again", "ex1 of 'Bo Ng' is overridden twice: keep one row"),
        ("Ann Lee,ex1,1,well, well", "more cells than titles"),
    ],
)
def test_a_fault_in_overrides_is_one_line_that_names_the_line(tmp_path, row, says):
    with pytest.raises(Problem) as problem:
        read(tmp_path, f"student,exercise,points,reason\nBo Ng,ex1,1,\n{row}\n")
    assert says in str(problem.value)
    assert "overrides.csv" in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("name", ["leeann", "11", "Lee, Ann", "S11", "ann@example.org", "Ann@Example.org", "Lee,  Ann"])
def test_a_student_is_called_as_in_the_platforms_table_too(tmp_path, name):
    people = [Submission("leeann", None, id="11"), Submission("kayacem", None, id="13")]
    rows = students_in(gradebook(CANVAS, tmp_path))
    assert Students(people, [[], rows]).find("here", name) == "leeann"


def test_a_students_own_name_goes_before_what_a_table_calls_another(tmp_path):
    people = [Submission("leeann", None, id="11"), Submission("ann", None)]
    assert Students(people, [students_in(gradebook(CANVAS, tmp_path))]).find("here", "ann") == "ann"


def test_a_name_of_two_rows_of_the_table_is_no_students(tmp_path):
    people = [Submission("kayacem", None, id="13"), Submission("cemkaya", None, id="14")]
    students = Students(people, [students_in(gradebook(CANVAS, tmp_path))])
    with pytest.raises(Problem, match="'Kaya, Cem' is 2 students"):
        students.find("here", "Kaya, Cem")
    with pytest.raises(Problem, match="no student in this class is called 'Ito, Eva'"):
        students.find("here", "Ito, Eva")
    assert students.find("here", "14") == "cemkaya"


def test_all_faults_are_told_at_once(tmp_path):
    rows = "".join(f"Nobody {n},ex1,1,\n" for n in range(3))
    with pytest.raises(Problem) as problem:
        read(tmp_path, f"student,exercise,points,reason\n{rows}Ann Lee,ex1,1,\nAnn Lee,ex9,1,\nBo Ng,ex1,1,a,b\n")
    told = str(problem.value).split("; ")
    assert [part.split(": ")[0].rpartition("/")[2] for part in told] == [
        f"overrides.csv, line {n}" for n in (7, 2, 3, 4, 6)
    ]
    with pytest.raises(Problem, match=r"; and 4 more$"):
        read(tmp_path, f"student,exercise,points,reason\n{rows * 3}")


def test_faults_of_both_files_are_told_at_once(tmp_path):
    (tmp_path / "overrides.csv").write_text("student,exercise,points\nCy,ex1,1\nAnn,total,12\n")
    (tmp_path / "words.csv").write_text(
        "student,question,points,of\nAnn,word,1,2\nCy,words,1,2\nAnn,words,3,2\nAnn,words,1,x\n"
    )
    with pytest.raises(Problem) as problem:
        Marking.read(tmp_path, lab_outline("lab01"), [Submission("Ann", None)], [], deadline())
    told = [part.split(": ")[0].rpartition("/")[2] for part in str(problem.value).split("; ")]
    assert told == [
        *("words.csv, line 2", "words.csv, line 5, of", "words.csv, line 3", "words.csv, line 4"),
        "overrides.csv, line 2",
    ]


@pytest.mark.parametrize("lab", LABS)
def test_the_outline_has_the_exercises_of_the_lab(lab):
    found, whole = lab_outline(lab), load_lab(lab)
    assert [(e.name, e.points, e.title) for e in found.exercises.values()] == [
        (e.name, e.points, e.title) for e in whole.exercises.values()
    ]


@pytest.mark.parametrize(
    "head", ["name,exercise,points", "student,points", "student,exercise,points,points", "Ann,ex1,1"]
)
def test_other_titles_are_one_line(tmp_path, head):
    with pytest.raises(Problem, match="its first line should be student,exercise,points,reason"):
        read(tmp_path, f"{head}\n")
    (tmp_path / "overrides.csv").write_bytes("student,exercise,points,reason\nZoë,ex1,1,\n".encode("cp1252"))
    with pytest.raises(Problem, match="save it as 'CSV UTF-8'"):
        overrides.read_overrides(tmp_path / "overrides.csv", STUDENTS, a_lab(), 5)


def test_the_file_is_begun_once_and_never_written_over(tmp_path):
    path = tmp_path / "overrides.csv"
    overrides.begin(path)
    assert path.read_text() == "student,exercise,points,reason\n"
    path.write_text("mine")
    overrides.begin(path)
    assert path.read_text() == "mine"


# --- words.csv ----------------------------------------------------------------------------------------------------


def read_words(tmp_path, text):
    path = tmp_path / "words.csv"
    path.write_text(text, encoding="utf-8")
    return words.read_words(path, STUDENTS, ["words"])


def test_points_for_words_count_for_everybody_as_soon_as_one_row_is_there(tmp_path):
    found = read_words(tmp_path, "student,question,points,of,reason\nAnn Lee,words,1.5,2,no labels\nBo Ng,words,,2,\n")
    assert found.most == 2
    assert found.of_student("Ann Lee", {"words": "..."}) == {"words": InWords(1.5, 2, "no labels")}
    assert found.of_student("Bo Ng", {"words": "Because."}) == {"words": InWords(None, 2)}
    assert found.of_student("=Eve", {"words": " YOUR ANSWER HERE\n"}) == {"words": InWords(0, 2)}
    assert found.of_student("=Eve", {}) == {"words": InWords(0, 2)}
    nothing = read_words(tmp_path, "student,question,points,of,reason\n")
    assert (nothing.most, nothing.of_student("Ann Lee", {"words": "..."})) == (0, {})


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("Cem,words,1,2,", "line 2: no student in this class is called 'Cem'"),
        ("Ann Lee,ex1,1,2,", "line 2: 'ex1' is no question that is answered in words: words"),
        ("Ann Lee,words,3,2,", "line 2: 3 points, and 2 is the most"),
        ("Ann Lee,words,1,,", "line 2: the column `of` says how many points words counts to"),
        ("Ann Lee,words,1,0,", "line 2: the column `of` says how many points words counts to"),
        ("Ann Lee,words,1,many,", "line 2, of: points are a number, and 'many' is none"),
        ("Ann Lee,words,1,2,\nBo Ng,words,1,3,", "line 3: words counts to 3 points, and above to 2"),
        ("Ann Lee,words,1,2,\n501,words,1,2,", "line 3: 'Ann Lee' has points for words twice"),
    ],
)
def test_a_fault_in_words_is_one_line(tmp_path, rows, says):
    with pytest.raises(Problem) as problem:
        read_words(tmp_path, f"student,question,points,of,reason\n{rows}\n")
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_the_labs_questions_and_rubrics_are_found():
    assert words.questions_of("lab01") == ["words"]
    rubric = words.rubric_of("lab01")
    assert rubric[0] == "Lab 01, in your own words: which copies could be saved?"
    assert [paragraph.split(":")[0] for paragraph in rubric[1:]] == ["• Full", "• Half", "• Not yet"]
    assert words.rubric_of("lab77") == []


# --- the mark -----------------------------------------------------------------------------------------------------


def test_a_grade_that_nothing_was_changed_about_is_a_mark():
    mark = as_mark(Grade("ann", "ok", {"ex1": 2, "ex2": 0}))
    assert (mark.mark, mark.in_all, mark.penalty, mark.known, mark.doubts, mark.changes) == (2, 2, 0, True, [], [])
    assert as_mark(mark) is mark
    assert most_of(a_lab(), [mark]) == 5


def test_overrides_words_and_being_late_add_up():
    late = Late("1 day", 1.5)
    mark = made(overrides={"ex2": Override(3, "")}, in_words={"words": InWords(1.25, 2)}, late=late)
    assert (mark.counted, mark.in_all, mark.penalty, mark.mark) == ({"ex1": 2, "ex2": 3}, 6.25, 1.5, 4.75)
    assert most_of(a_lab(), [mark]) == 7
    assert made(ex1=1, late=Late("9 days", 5)).mark == 0
    mark = made(overrides={"total": Override(4, "")}, in_words={"words": InWords(None, 2)}, late=late)
    assert (mark.mark, mark.penalty, mark.doubts) == (4, 0, []), "a total is the mark, whenever it came"


@pytest.mark.parametrize(
    ("mark", "doubt"),
    [
        (made(), ""),
        (made(status="error"), ""),
        (made(status="timeout"), "did not finish in time"),
        (made(flags=["it replaced torch.equal"]), "torch.equal"),
        (made(late=Late("late", 0, "by how much is not known")), "by how much"),
        (made(in_words={"words": InWords(None, 2)}), "the answer in words (words) has no points yet"),
        (made(status="missing"), "nothing was handed in"),
        (made(status="not-a-notebook"), "cannot be read"),
        # A marker who changes an exercise has looked at the submission, and has said nothing about what is still open.
        (made(status="timeout", flags=["odd"], overrides={"ex2": Override(1, "")}), ""),
        (made(late=Late("late", 0, "how late"), overrides={"ex2": Override(1, "")}), "how late"),
        (made(in_words={"words": InWords(None, 2)}, overrides={"ex2": Override(1, "")}), "has no points yet"),
        (made(status="not-a-notebook", overrides={"ex2": Override(1, "")}), "cannot be read"),
        (made(status="not-a-notebook", overrides={"ex1": Override(1, ""), "ex2": Override(1, "")}), ""),
        (made(status="missing", overrides={"total": Override(0, "")}), ""),
        (made(status="not-graded", overrides={"total": Override(5, "")}), ""),
    ],
)
def test_a_mark_is_sure_or_has_its_doubt(tmp_path, mark, doubt):
    assert doubt in "; ".join(mark.doubts)
    assert bool(mark.doubts) == bool(doubt)
    held = write_exports([mark], a_lab(), tmp_path).held
    assert ("Ann Lee" in (tmp_path / "canvas.csv").read_text()) == (not doubt)
    assert [one.name for one in held] == list(looked_at(tmp_path)) == (["Ann Lee"] if doubt else [])


def test_what_being_late_costs_can_be_set(tmp_path):
    (tmp_path / "overrides.csv").write_text(
        "student,exercise,points,reason\nAnn Lee,late,0,ill\nBo Ng,late,0.5,\nCy,late,0,\n"
    )
    class_of = [Submission(name, tmp_path, late=name == "Ann Lee") for name in ("Ann Lee", "Bo Ng", "Cy")]
    lab = load_lab("lab01")
    marking = Marking.read(tmp_path, lab, class_of, [], deadline(penalty="1/day"))
    marks = [marking.mark(Grade(one.student, "ok", dict.fromkeys(lab.exercises, 1))) for one in class_of]
    assert [(mark.late and mark.late.words, mark.penalty, mark.doubts) for mark in marks] == [
        *(("late", 0, []), ("late", 0.5, []), (None, 0, [])),
    ]


CLASS = [
    made("late", late=Late("1 day 2 h", 0.5)),
    made("changed", overrides={"ex2": Override(3, "right, but <b>renamed</b>")}),
    made("by hand", 0, 0, "not-a-notebook", overrides={"total": Override(4, "on paper")}),
    made("not known", late=Late("not known", 0, "when this was handed in is not known")),
]


def test_what_an_override_leaves_as_it_was_is_not_told_as_changed():
    mark = made(overrides={"ex1": Override(2, "looked at"), "total": Override(2, ""), "ex2": Override(1, "")})
    assert mark.changes == ["ex1: 2 (looked at)", "mark: 2 instead of 3", "ex2: 1 instead of 0"]
    assert made(overrides={"total": Override(2, "")}).changes == ["mark: 2"]


def test_all_of_it_stands_in_the_table(tmp_path):
    write_grades(CLASS, a_lab(), tmp_path / "grades.csv")
    rows = {row["student"]: row for row in table(tmp_path / "grades.csv")}
    columns = "student,ex1,ex2,total,late,penalty,mark,max,status,changed,note,look_at"
    assert ",".join(rows["late"]) == columns
    assert [rows["late"][name] for name in ("total", "late", "penalty", "mark", "max")] == [
        "2",
        "1 day 2 h",
        "0.5",
        "1.5",
        "5",
    ]
    assert [rows["changed"][name] for name in ("ex2", "total", "mark")] == ["3", "5", "5"]
    assert rows["changed"]["changed"] == "ex2: 3 instead of 0 (right, but <b>renamed</b>)"
    assert [rows["by hand"][name] for name in ("total", "mark", "status")] == ["0", "4", "not-a-notebook"]
    assert rows["not known"]["look_at"] == "when this was handed in is not known"
    marked = [made("ann", in_words={"words": InWords(1, 2)}), made("bo", in_words={"words": InWords(None, 2)})]
    write_grades(marked, a_lab(), tmp_path / "grades.csv")
    found = [[row[name] for name in ("words", "total", "mark", "max")] for row in table(tmp_path / "grades.csv")]
    assert found == [["1", "3", "3", "7"], ["", "2", "2", "7"]]


def test_the_table_says_why_a_mark_is_held_back_as_the_page_does(tmp_path):
    marks = [made(status, status=status) for status in (*STATUSES, "a status of tomorrow")]
    marks.append(made("decided", status="crash", flags=["odd"], overrides={"total": Override(2, "")}))
    write_grades(marks, a_lab(), tmp_path / "grades.csv")
    found = {row["student"]: row["look_at"] for row in table(tmp_path / "grades.csv")}
    held = {one.name: "; ".join(one.why) for one in write_exports(marks, a_lab(), tmp_path).held}
    assert found == {"ok": "", "error": "", "decided": "odd"} | held
    assert (found["crash"], found["missing"]) == ("the kernel died", "nothing was handed in")


def test_all_of_it_is_exported_with_what_it_counts_to(tmp_path):
    marks = [made("ann", id="11", in_words={"words": InWords(1.5, 2)}, late=Late("1 h", 1))]
    write_exports(marks, a_lab(), tmp_path)
    assert [row["Lab77: Knit a scarf"] for row in table(tmp_path / "canvas.csv")] == ["7", "2.5"]
    text = "Identifier,Full name,Grade,Maximum Grade,Last modified (grade)\nParticipant 11,ann,,7.00,-\n"
    write_exports(marks, a_lab(), tmp_path, gradebook(text, tmp_path))
    assert [(row["Grade"], row["Maximum Grade"]) for row in table(tmp_path / "moodle.csv")] == [("2.5", "7.00")]


def test_a_platform_that_counts_to_less_is_told_before_the_import(tmp_path):
    text = "Identifier,Full name,Grade,Maximum Grade,Last modified (grade)\nParticipant 501,Ann Lee,,5.00,-\n"
    said = write_exports([made(in_words={"words": InWords(2, 2)})], a_lab(), tmp_path, gradebook(text, tmp_path)).said
    told = "moodle.csv: the platform counts to 5 points, and these marks are of 7. Let it count to 7 before you import."
    assert told in said


def test_the_student_reads_what_was_changed_and_why():
    page, text = student_page(CLASS[1], a_lab()), student_text(CLASS[1], a_lab())
    assert is_harmless(page)
    told = "Changed by the instructor from 0. Reason: right, but "
    assert f"{told}&lt;b&gt;renamed&lt;/b&gt;" in page
    assert f"ex2  3 / 3  Purl\n  {told}<b>renamed</b>" in text
    assert text.startswith("Knit a scarf (lab77), changed: 5 of 5 points")
    page, text = student_page(CLASS[0], a_lab()), student_text(CLASS[0], a_lab())
    for told in (page, text):
        assert "Handed in 1 day 2 h late: 0.5 points are taken off." in told
    assert "late: 1.5 of 5 points\n" in text
    text = student_text(CLASS[2], a_lab())
    assert "by hand: 4 of 5 points" in text
    assert "Your instructor has set the mark to 4 points. Reason: on paper" in text
    mark = made(in_words={"words": InWords(1.5, 2, "no labels")}, free_text={"words": "Because <i>one</i> waits."})
    page, text = student_page(mark, a_lab()), student_text(mark, a_lab())
    assert "words  1.5 / 2  in your own words\n  no labels\n" in text
    assert "Because &lt;i&gt;one&lt;/i&gt; waits." in page
    assert "1.5 / 2" in page
    text = student_text(made(late=Late("2 h", 1), rule="late costs 1/day"), a_lab())
    assert "Handed in 2 h late: 1 point is taken off. The rule: late costs 1/day.\n" in text
    text = student_text(made(late=Late("2 h", 0.5), rule="late costs 10%/day"), a_lab())
    assert "late: 0.5 points are taken off. The rule: late costs 10%/day (of 5 points).\n" in text
    mark = made(late=Late("2 h", 0), overrides={"late": Override(0, "the train")})
    assert "Handed in 2 h late: nothing is taken off. Reason: the train" in student_text(mark, a_lab())


def test_the_page_about_the_class_shows_who_was_late_and_what_was_changed():
    page = class_page(CLASS, a_lab(), rule="late after 2026-11-30 23:59, late costs 10%/day")
    assert is_harmless(page)
    late, changed = section(page, "late"), section(page, "changed")
    assert "late after 2026-11-30 23:59" in late
    assert "1 day 2 h" in late
    assert "not known: not decided yet" in late
    assert "ex2: 3 instead of 0 (right, but &lt;b&gt;renamed&lt;/b&gt;)" in changed
    assert "mark: 4 (on paper)" in changed
    assert "<bdi>not known</bdi>" in section(page, "look")
    assert "<bdi>by hand</bdi>" not in section(page, "look")
    boxes = section(page.replace("<h1>", '<h2 id="top">'), "top")
    assert "<b>2</b>late" in boxes
    assert "<b>2</b>changed by hand" in boxes
    assert 'id="late"' not in class_page([made()], a_lab())


def test_hostile_reasons_are_only_text(tmp_path):
    mark = made(overrides={"total": Override(1, HOSTILE)}, in_words={"words": InWords(1, 2, HOSTILE)})
    assert is_harmless(student_page(mark, a_lab()))
    assert is_harmless(class_page([mark], a_lab(), rule=HOSTILE))
    student_text(mark, a_lab()).encode()
