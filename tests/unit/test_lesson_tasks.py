"""The tasks in the lessons: stubs, working versions, and answers that are wrong in a way that somebody meant."""

import ast
import re
import sys
from collections import Counter
from functools import cache
from types import ModuleType, SimpleNamespace

import nbformat
import pytest
import torch

import simgpu
from tests.support.answers import read_page
from tests.support.notebooks import ROOT
from tests.support.tiers import THOROUGH
from utils.common.cell_tags import TASK
from utils.exercises import check as check_module
from utils.exercises.check import tasks
from utils.exercises.facts import Exercise, Fact, Lab, LocalStudent, judge, load_lab, need
from utils.widgets.explanations import FOLDER, sections

LESSONS = {f"lesson{path.name[:2]}": path for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))}
WITH_TASKS = sorted(path.name for path in (ROOT / "tests").glob("lesson[0-9]*"))
# In `make test`: of each task, so many. The working versions are right ones.
FIRST = {"wrong": 1, "right": 0}
ANSWERS = [one for path in sorted((ROOT / "tests").glob("lesson*/answers/*.py")) for one in read_page(path)]


@cache
def cells(lesson):
    return [cell for cell in nbformat.read(LESSONS[lesson], 4).cells if cell.cell_type == "code"]


def findings(lesson, name, source):
    """What is found about an answer to a task, which is run as its cell would be."""
    simgpu.enable(count=2)
    namespace = {"__name__": "__main__"}
    imports = "import torch\nimport torch.distributed as dist\nfrom torch import nn\n"
    exec(compile(imports + source, "<cell 1>", "exec"), namespace)
    return judge(load_lab(lesson).exercises[name], LocalStudent(namespace, ["simgpu:0", "simgpu:1"]))


@pytest.mark.parametrize("lesson", WITH_TASKS)
def test_a_lesson_has_for_each_task_a_stub_and_a_working_version(lesson):
    worked = (ROOT / "utils" / "exercises" / "tasks" / lesson / "worked.py").read_text()
    for name in load_lab(lesson).exercises:
        [stub] = [c.source for c in cells(lesson) if TASK in c.metadata.get("tags", []) and f" {name}(" in c.source]
        sources = [cell.source for cell in cells(lesson)]
        assert f'check("{name}")' in sources
        assert [source for source in sources if f'{name} = yours_or_ours("{name}")' in source]
        assert "not written yet" in findings(lesson, name, stub)[-1].found
        found = findings(lesson, name, worked)
        assert all(finding.holds for finding in found), found[-1]


def params():
    seen = Counter()
    for a in ANSWERS:
        seen[a.lab, a.exercise, a.verdict] += 1
        is_first = seen[a.lab, a.exercise, a.verdict] <= FIRST[a.verdict]
        yield pytest.param(a, id=f"{a.lab}-{a.exercise}-{a.verdict}-{a.name}", marks=[] if is_first else THOROUGH)


@pytest.mark.parametrize("answer", params())
def test_a_wrong_answer_to_a_task_is_told_so_and_a_right_one_passes(answer):
    last = findings(answer.lab, answer.exercise, answer.code)[-1]
    assert last.holds == (answer.verdict == "right"), last
    assert last.holds or len(last.found) > 10


@pytest.mark.parametrize("lesson", WITH_TASKS)
def test_every_task_has_answers_to_be_tested_with(lesson):
    for name in load_lab(lesson).exercises:
        verdicts = [one.verdict for one in ANSWERS if (one.lab, one.exercise) == (lesson, name)]
        assert verdicts.count("wrong") >= 3, name
        assert verdicts.count("right") >= 1, name


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.md")), ids=lambda path: path.name)
def test_every_explanation_is_asked_for_by_one_question_of_its_lesson(path):
    [page] = (ROOT / "notebooks").glob(f"{path.stem}*.ipynb")
    source = "\n".join(cell.source for cell in nbformat.read(page, as_version=4).cells)
    asked = re.findall(rf'why="{path.stem}/([^"]+)"', source)
    assert sorted(asked) == sorted(sections(path))


# --- tasks(), with a lesson that is made up -----------------------------------------------------------------------


@pytest.fixture
def lesson(monkeypatch):
    """A lesson whose one task is a function `double`."""

    def doubles(student):
        def probe(lab):
            return lab.double(4)

        need(student.run(probe) == 8, "double(4) is not 8.")

    double = Exercise("double", 0, "Twice as much", ["Add it to itself."], facts=[Fact("double(4) is 8", doubles)])
    monkeypatch.setattr(check_module, "load_lab", lambda name: Lab(name, "Made up", {"double": double}))
    worked = ModuleType("utils.exercises.tasks.lesson99.worked")
    worked.double = lambda number: number * 2
    monkeypatch.setitem(sys.modules, "utils.exercises.tasks.lesson99.worked", worked)
    namespace = {}
    check, yours_or_ours = tasks("lesson99", namespace)
    return SimpleNamespace(namespace=namespace, check=check, yours_or_ours=yours_or_ours, ours=worked.double)


def test_who_passes_goes_on_with_their_own(lesson, capsys):
    lesson.namespace["double"] = mine = lambda number: number + number
    assert repr(lesson.check("double")).splitlines()[0] == "double passed: Twice as much", "no points are told"
    assert lesson.yours_or_ours("double") is mine
    assert capsys.readouterr().out == "Continuing with your double.\n"


@pytest.mark.parametrize("mine", [None, lambda number: number + 1], ids=["skipped", "wrong"])
def test_who_does_not_pass_goes_on_with_the_courses_and_is_told_so(lesson, mine, capsys):
    if mine is not None:
        lesson.namespace["double"] = mine
    assert not lesson.check("double").passed
    lesson.namespace["double"] = lesson.yours_or_ours("double")
    assert lesson.namespace["double"] is lesson.ours
    assert "in utils/exercises/tasks/lesson99/worked.py: yours has not passed its check yet" in capsys.readouterr().out
    with pytest.raises(ValueError, match="is now the course's version"):
        lesson.check("double")


def test_who_goes_on_where_nothing_can_be_judged_is_told_why(lesson, capsys):
    def needs_numbers(number):
        return torch.ones(2, device="simgpu:0").sum().item() * number

    lesson.namespace["double"] = needs_numbers
    assert lesson.yours_or_ours("double") is needs_numbers
    simgpu.enable(count=2, compute=False)
    assert lesson.yours_or_ours("double") is lesson.ours
    assert (
        "utils/exercises/tasks/lesson99/worked.py: double cannot be checked: the check needs numbers"
        in capsys.readouterr().out
    )


def test_the_solved_lesson_ends_with_its_tasks_passed(tmp_path):
    from tools.solved_lessons import solved

    stub = nbformat.v4.new_code_cell("def double(n):\n    raise NotImplementedError()", metadata={"tags": [TASK]})
    after = [nbformat.v4.new_code_cell(text) for text in ('double = yours_or_ours("double")', "print('later')")]
    path = tmp_path / "99_made_up.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[stub, *after]), path)
    sources = [
        cell.source for cell in solved(path, "import math\n\ndef other(): ...\n\ndef double(n): return n * 2").cells
    ]
    assert sources[0] == "import math\ndef double(n): return n * 2"
    assert sources[-1] == "assert check('double').passed, check('double')"
    assert "print('later')" not in sources
    assert all(ast.parse(source) for source in sources)


def test_the_solved_lesson_leaves_out_what_lies_between_two_tasks(tmp_path):
    from tools.solved_lessons import solved

    cells = [nbformat.v4.new_code_cell("import math")]
    for name in ("double", "half"):
        stub = f"def {name}(n):\n    raise NotImplementedError()"
        cells.append(nbformat.v4.new_code_cell(stub, metadata={"tags": [TASK]}))
        cells += [nbformat.v4.new_code_cell(text) for text in (f'{name} = yours_or_ours("{name}")', "print('between')")]
    path = tmp_path / "99_made_up.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    sources = [cell.source for cell in solved(path, "def double(n): return n * 2\n\ndef half(n): return n / 2").cells]
    assert sources == [
        "import math",
        "def double(n): return n * 2",
        'double = yours_or_ours("double")',
        "def half(n): return n / 2",
        'half = yours_or_ours("half")',
        "assert check('double').passed, check('double')\nassert check('half').passed, check('half')",
    ]
