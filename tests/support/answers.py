"""The answers that the graders are tested with: a page for each exercise, as solutions/lab01/answers/ex2.py.

    # %% wrong: input_never_moved
    # Thinks that a layer fetches its input from wherever it is, so the batch is not moved to the first device.

    class SimpleMPModel(nn.Module):
        ...

A wrong answer loses its exercise, a right one nothing. The comment below the headline, up to the first line that is
none, says what the student thinks, or how the right answer is written. What else there is to say goes into further
paragraphs of it, behind a line with nothing but `#`.

Code above the first headline begins each answer of the page. It is what the notebook's own answer has in this cell and
other exercises use, as lab 19's Trainer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from .notebooks import ROOT
from .parts import read_parts

COMMENT = re.compile(r"(?:#(?: .*)?\n)+")


@dataclass(frozen=True)
class Answer:
    lab: str
    exercise: str
    verdict: str  # wrong or right
    name: str
    says: str
    code: str

    @property
    def misconception(self) -> str:
        """What the student thinks, in one line."""
        return " ".join(self.says.split("\n\n")[0].split())


def read_page(path: Path) -> list[Answer]:
    """The answers of one exercise, in the order of its page."""
    _, top, parts = read_parts(path)
    found = [_answer(path, top, headline, text) for headline, text in parts]
    assert len({(one.verdict, one.name) for one in found}) == len(found), f"{path}: two answers have one name"
    return found


def _answer(path: Path, top: str, headline: str, text: str) -> Answer:
    verdict, _, name = headline.partition(": ")
    assert verdict in ("wrong", "right"), f"{path}: '# %% {headline}' should be like '# %% wrong: a_name', or right:"
    assert name.isidentifier(), f"{path}: '# %% {headline}' does not end with a name"
    comment = COMMENT.match(text)
    assert comment, f"{path}: {name} has no comment that says what it stands for"
    says = "\n".join(line[2:] for line in comment[0].splitlines()).strip()
    code = text[comment.end() :].strip()
    return Answer(path.parts[-3], path.stem, verdict, name, says, f"{top}\n\n\n{code}" if top else code)


ANSWERS = [one for path in sorted((ROOT / "solutions").glob("lab*/answers/*.py")) for one in read_page(path)]


def answers_of(lab: str, verdict: str) -> list[Answer]:
    return [one for one in ANSWERS if (one.lab, one.verdict) == (lab, verdict)]


def chosen(lab: str, verdict: str, **names: str) -> dict[str, str]:
    """The code of some answers by exercise: `chosen("lab01", "wrong", ex2="input_never_moved")`."""
    found = {one.exercise: one.code for one in answers_of(lab, verdict) if names.get(one.exercise) == one.name}
    assert found.keys() == names.keys(), f"{lab} has not all of these {verdict} answers: {names}"
    return found
