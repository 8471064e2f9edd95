"""Answers that are alike within a class: copies are found whatever was renamed, and the obvious way is no copy."""

import json
import random
import re
import time

import pytest

from tests.support.answers import ANSWERS
from tests.support.notebooks import LABS, grade_id, notebook_with
from tests.unit.test_feedback import HOSTILE, is_harmless
from utils.common.errors import Problem
from utils.exercises.facts import load_lab
from utils.grading.compare import COMMON, compare_answers, read_results
from utils.grading.grade import Grade
from utils.grading.handed_in.reading import OTHER_CELLS
from utils.grading.tell.comparison import write_comparison

MODEL = {
    grade_id(cell): cell.source
    for cell in notebook_with("lab01", {}).cells
    if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution")
}
ODD = """\
def placement(model):
    # My own idea.
    found = {}
    waiting = [("", model)]
    while waiting:
        path, module = waiting.pop(0)
        for key, tensor in module._parameters.items():
            if tensor is not None:
                found[path + key] = str(tensor.device)
        waiting.extend((f"{path}{key}.", child) for key, child in module._modules.items())
    return found
"""
RENAMED = (
    re.sub(r"\bfound\b", "devices_of", ODD)
    .replace("waiting", "todo")
    .replace("path", "prefix")
    .replace("# My own idea.", '"""Breadth first."""')
    .replace("    while", "\n    while")
)


def made(student, **answers):
    return Grade(student, "ok", {"ex4": 2}, answers=MODEL | answers)


def pairs(grades):
    return [(one.student, one.other, one.exercise, one.alike) for one in compare_answers(grades, "lab01").pairs]


def test_a_copy_is_found_whatever_was_renamed():
    assert pairs([made("ann", ex4=ODD), made("bob", ex4=ODD), made("cem")]) == [("ann", "bob", "ex4", "the same")]
    assert pairs([made("ann", ex4=ODD), made("bob", ex4=RENAMED)]) == [("ann", "bob", "ex4", "the same but for names")]
    more = RENAMED.replace("    todo = ", "    steps = 0\n    todo = ").replace("is not None:", "is not None and True:")
    found = compare_answers([made("ann", ex4=ODD), made("bob", ex4=more)], "lab01").pairs
    assert [(one.student, one.other) for one in found] == [("ann", "bob")]
    assert 0.5 < found[0].share < 1


def test_the_model_answer_is_the_obvious_one():
    found = compare_answers([made("ann"), made("bob"), made("cem", ex4=ODD)], "lab01")
    assert found.pairs == []
    assert ("ex4", 2, True) in [(one.exercise, one.students, one.model) for one in found.shared]


def test_what_many_share_is_no_copy():
    many = [made(f"student {n}", ex4=ODD) for n in range(COMMON + 1)]
    found = compare_answers(many, "lab01")
    assert found.pairs == []
    assert ("ex4", COMMON + 1, False) in [(one.exercise, one.students, one.model) for one in found.shared]
    assert len(compare_answers(many[1:], "lab01").pairs) == COMMON * (COMMON - 1) / 2


def test_the_rarest_pair_comes_first():
    small = ODD.replace("        for key", "        del key\n        for key").partition("            if")[0]
    grades = [made("ann", ex4=small), made("bob", ex4=small), made("zoe", ex4=ODD, ex1=ODD), made("yan", ex4=ODD)]
    found = compare_answers(grades, "lab01").pairs
    assert (found[0].student, found[0].other) == ("yan", "zoe")
    assert [one.rare for one in found] == sorted((one.rare for one in found), reverse=True)


def test_cells_beside_the_answers_are_compared_too():
    grades = [made("ann", **{OTHER_CELLS: ODD}), made("bob", **{OTHER_CELLS: RENAMED})]
    assert pairs(grades) == [("ann", "bob", OTHER_CELLS, "the same but for names")]


def test_what_was_not_judged_is_left_out_and_what_has_no_code_is_told():
    old = Grade("old", "ok", {"ex4": 2})
    found = compare_answers([made("ann"), old, Grade("gone", "missing", {"ex4": 0})], "lab01")
    assert (found.students, found.without) == (2, ["old"])


@pytest.mark.parametrize("text", [HOSTILE, "'''" * 6000, '"' * 20_000, "(" * 20_000, "\x00" * 100, "\\" * 20_000])
def test_any_text_is_compared_in_bounded_time(text, tmp_path):
    begin = time.process_time()
    found = compare_answers([made(HOSTILE, ex4=text), made("bob", ex4=text), made("cem", ex4=text + "x")], "lab01")
    assert time.process_time() - begin < 10
    table, page = write_comparison(found, load_lab("lab01"), tmp_path)
    assert is_harmless(page.read_text())
    assert table.stat().st_size < 100_000


@pytest.mark.parametrize("lab", LABS)
def test_answers_written_in_different_styles_are_not_alike(lab):
    """Everybody has another of the right answers that the graders are tested with."""
    right: dict[str, list[str]] = {}
    for one in ANSWERS:
        if (one.lab, one.verdict) == (lab, "right"):
            right.setdefault(one.exercise, []).append(one.code)
    most = max(map(len, right.values()))
    grades = [
        Grade(f"student {n}", "ok", {}, answers={name: codes[n] for name, codes in right.items() if n < len(codes)})
        for n in range(most)
    ]
    found = compare_answers(grades, lab).pairs
    # Three answers of lab11 differ in little, and have one author.
    assert len(found) <= 3 * (lab == "lab11"), [(one.exercise, one.code) for one in found]


def test_those_who_handed_in_together_count_as_one():
    grades = [made(name, ex4=ODD) for name in ("ann", "bob", "cem")]
    grades[0].group = grades[2].group = "Group 1"
    assert pairs(grades) == [("ann", "bob", "ex4", "the same")]
    assert compare_answers(grades, "lab01").students == 2


def test_the_page_and_the_table_are_the_same_bytes_for_the_same_class(tmp_path):
    grades = [made("ann", ex4=ODD), made("bob", ex4=RENAMED), made("=cem", ex4=ODD), *(made(f"s{n}") for n in range(9))]
    written = []
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        folder.mkdir()
        write_comparison(compare_answers(random.Random(seed).sample(grades, 12), "lab01"), load_lab("lab01"), folder)
        written.append([path.read_bytes() for path in sorted(folder.iterdir())])
    assert written[0] == written[1]
    assert b"'=cem,ann,ex4,the same," in written[0][0]
    assert b"never a verdict" in written[0][1]


def test_results_are_read_from_the_graded_folder_for_the_class_as_it_is(tmp_path):
    with pytest.raises(Problem, match=r"has no grades\.csv"):
        read_results(tmp_path)
    (tmp_path / "grades.csv").write_text("student,mark\n'=ann,2\n")
    (tmp_path / "results").mkdir()
    for student in ("=ann", "left last week"):
        result = {"grade": made(student).to_dict()}
        (tmp_path / "results" / f"{student}.json").write_text(json.dumps(result))
    assert [grade.student for grade in read_results(tmp_path)] == ["=ann"]
    for text in ("{", "[]", '{"grade": []}', '{"grade": {"findings": []}}', '{"grade": {"findings": {}}}'):
        (tmp_path / "results" / "bob.json").write_text(text)
        with pytest.raises(Problem, match=r"bob\.json cannot be read"):
            read_results(tmp_path)
