"""Answers of a class that are alike, exercise by exercise: a reason to look, and never a verdict.

Code is compared as the tokens of its text, and is neither run nor parsed: without comments, without texts in triple
quotation marks, without the lines that the released notebook gives, and with names replaced by their order. Pieces of
`PIECE` tokens that are the model answer's, or that more than `COMMON` students have, say nothing: these are the obvious
way to write it. The pieces that are left, and that two students share, are counted: many are seldom chance.
"""

from __future__ import annotations

import csv
import json
import keyword
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from utils.common.errors import Problem
from utils.common.files import ROOT
from utils.common.notebook_format import nbformat
from utils.exercises.facts import lab_sources
from utils.grading.grade import Grade
from utils.grading.handed_in.reading import OTHER_CELLS
from utils.grading.tell.cells import cell

PIECE = 8  # tokens
COMMON = 5  # students who may share a piece, or a whole answer, before it counts as the obvious one
LEAST_RARE = 8  # rare pieces that two answers share before they are told
LEAST_SHARE = 0.5  # of the rare pieces of both, likewise
TOKEN = re.compile(
    r"(?P<skip>#[^\n]*|'''.*?'''|\"\"\".*?\"\"\")"
    r"|(?P<text>'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\")"
    r"|(?P<name>[^\W\d]\w*)|(?P<number>\d[\w.]*)|(?P<sign>\S)",
    re.DOTALL,
)


@dataclass(frozen=True)
class Pair:
    """Two students whose answers to an exercise are alike."""

    student: str
    other: str
    exercise: str
    alike: str  # how, in words
    share: float  # of the rare pieces of both that both have
    rare: int  # pieces that both have, and few others
    code: tuple[str, str]


@dataclass(frozen=True)
class Shared:
    """An answer that many have: too obvious to say anything."""

    exercise: str
    students: int
    model: bool  # it is the model answer


@dataclass(frozen=True)
class Comparison:
    """What was found about a class."""

    students: int
    pairs: list[Pair]  # the rarest first
    shared: list[Shared]
    without: list[str]  # students whose code was not kept


def compare_answers(grades: Iterable[Grade], lab: str) -> Comparison:
    """Compare the answers of a class, in the order of the students' names: the same grades give the same result."""
    judged = _once_a_group(sorted((grade for grade in grades if grade.judged), key=lambda grade: grade.student))
    given, model = _given(lab), _model(lab)
    names = {name for line in given for name in re.findall(r"[^\W\d]\w*", line)}
    pairs: list[Pair] = []
    shared: list[Shared] = []
    for exercise in [*model, OTHER_CELLS]:
        answers = {grade.student: _own_lines(grade.answers.get(exercise, ""), given) for grade in judged}
        found, many = _alike(exercise, answers, _own_lines(model.get(exercise, ""), given), names)
        pairs += found
        shared += many
    pairs.sort(key=lambda pair: (-pair.rare, pair.student, pair.other, pair.exercise))
    return Comparison(len(judged), pairs, shared, [grade.student for grade in judged if not grade.answers])


def _once_a_group(grades: Iterable[Grade]) -> list[Grade]:
    """Those who handed in together count as one: the first of them."""
    firsts: dict[str | tuple[str], Grade] = {}
    for grade in grades:
        firsts.setdefault(grade.group or (grade.student,), grade)
    return list(firsts.values())


def read_results(out: Path) -> list[Grade]:
    """The grades that `course grade` keeps in a folder, of those in its grades.csv. Raises Problem without one."""
    try:
        with (out / "grades.csv").open(encoding="utf-8", newline="") as file:
            names = {row["student"] for row in csv.DictReader(file)}
    except (OSError, ValueError, KeyError, csv.Error):
        raise Problem(f"{out} has no grades.csv: give the folder that `course grade --out` wrote") from None
    found = []
    for path in sorted((out / "results").glob("*.json")):
        try:
            grade = Grade.from_dict(json.loads(path.read_text(encoding="utf-8"))["grade"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise Problem(f"{path} cannot be read: run the `course grade` that wrote it again") from None
        if cell(grade.student) in names:  # others are left of an earlier class
            found.append(grade)
    return found


# --- an exercise ------------------------------------------------------------------------------------------------


def _alike(exercise: str, answers: Mapping[str, str], model: str, names: set[str]) -> tuple[list[Pair], list[Shared]]:
    """The pairs whose answers to one exercise are alike, and the answers that many share."""
    tokens = {student: _tokens(code, names) for student, code in answers.items() if code.strip()}
    forms = {student: _form(found) for student, found in tokens.items()}
    models = _form(_tokens(model, names))
    counts = Counter(forms.values())
    many = [
        Shared(exercise, count, form == models)
        for form, count in counts.most_common()
        if form and (count > COMMON or form == models)
    ]
    pieces = {student: _pieces(found) for student, found in tokens.items()}
    owners: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for student, mine in pieces.items():
        for piece in mine:
            owners[piece].append(student)
    obvious = _pieces(_tokens(model, names))
    rare = {piece for piece, whose in owners.items() if len(whose) <= COMMON and piece not in obvious}
    both = Counter(pair for piece in rare for pair in combinations(owners[piece], 2))
    found = []
    for (one, other), number in both.items():
        share = number / len((pieces[one] | pieces[other]) & rare)
        if number >= LEAST_RARE and share >= LEAST_SHARE:
            how = _how(tokens[one] == tokens[other], forms[one] == forms[other], share)
            found.append(Pair(one, other, exercise, how, share, number, (answers[one], answers[other])))
    return found, many


def _how(same_text: bool, same_form: bool, share: float) -> str:
    if same_text:
        return "the same"
    return "the same but for names" if same_form else f"{share:.0%} of their rare pieces"


def _tokens(code: str, given: set[str]) -> list[tuple[str, bool]]:
    """(text, whether it is a name of the student's own) of each token of a text that may be Python, without comments.

    Python's words, names in `given` and what a library calls its attributes are no student's own.
    """
    found: list[tuple[str, bool]] = []
    for token in TOKEN.finditer(code):
        if token.lastgroup != "skip":
            text, before = token[0], [text for text, _ in found[-2:]]
            attribute = before[-1:] == ["."] and before != ["self", "."]
            own = token.lastgroup == "name" and not (keyword.iskeyword(text) or text in given or attribute)
            with_names = token.lastgroup == "text" and "{" in text  # as in f"{path}.weight"
            found.append((text, own or with_names))
    return found


def _form(tokens: Sequence[tuple[str, bool]]) -> tuple[str, ...]:
    """The tokens with the student's own names replaced by the order in which they come."""
    order: dict[str, str] = {}
    return tuple(order.setdefault(text, f"name {len(order)}") if own else text for text, own in tokens)


def _pieces(tokens: Sequence[tuple[str, bool]]) -> set[tuple[str, ...]]:
    """All pieces of `PIECE` tokens, each with its own order of names, so that one more name changes nothing behind."""
    return {_form(tokens[place : place + PIECE]) for place in range(len(tokens) - PIECE + 1)}


# --- what everybody has -------------------------------------------------------------------------------------------


def _given(lab: str) -> set[str]:
    """The lines of code that the released notebook gives. Raises Problem where it was not released."""
    path = ROOT / "labs" / lab / lab_sources([lab])[0].name
    if not path.is_file():
        raise Problem(f"{path} is not there: run `course release {lab}` first")
    return {line.strip() for code in _code_cells(path) for line in code.source.split("\n")}


def _model(lab: str) -> dict[str, str]:
    """The model answers, by the name of their cell."""
    about = [(code, code.metadata.get("nbgrader", {})) for code in _code_cells(lab_sources([lab])[0])]
    return {one["grade_id"]: code.source for code, one in about if one.get("solution")}


def _code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [one for one in nbformat.read(path, as_version=4).cells if one.cell_type == "code"]


def _own_lines(code: str, given: set[str]) -> str:
    """The lines that the released notebook does not give."""
    return "\n".join(line for line in code.split("\n") if line.strip() not in given)
