"""Writes what students think who give a wrong answer, and what they are told: a table for each lab, and a page.

.venv/bin/python -m tests.support.misconceptions [LAB ...]

The tables (solutions/lab01/misconceptions.json and so on) are what the class report reads. The page shows them all.
"""

from __future__ import annotations

import json
import math
import re
import sys

from utils.common.files import write_whole
from utils.exercises.facts import Finding, load_lab
from utils.grading.tell.misconceptions import table_of

from .answers import Answer, answers_of
from .judging import Judge
from .notebooks import LABS, ROOT

PAGE = ROOT / "docs" / "misconceptions.md"
WRITE_AGAIN = "write it again: .venv/bin/python -m tests.support.misconceptions"
TOP = f"""# What the graders catch

Each wrong answer is one that students write. It loses its exercise and no other; the words are what the student is told. The answers stand in `solutions/lab01/answers/` and so on. This page is written by `{WRITE_AGAIN.partition(": ")[2]}`.
"""  # noqa: E501


DECIMAL = re.compile(r"\d+\.\d+")


def row(answer: Answer, finding: Finding) -> dict[str, str]:
    """What the table has of a wrong answer."""
    words = {"claim": finding.claim, "told": finding.found}
    return {"exercise": answer.exercise, "answer": answer.name, "misconception": answer.misconception} | words


def known(lab: str) -> list[dict[str, str]]:
    """The rows that the table of a lab has."""
    return json.loads(table_of(lab).read_text(encoding="utf-8"))


def is_known(found: dict[str, str], lab: str) -> bool:
    """Whether the table of a lab has this row. Numbers with a decimal point may be 1% apart: products in bfloat16 are
    not rounded alike on all CPUs (a loss was 2.1154 with AMX, 2.1151 with AVX-512, 2.1148 with AVX2)."""
    return any(_are_alike(found, one) for one in known(lab))


def _are_alike(found: dict[str, str], one: dict[str, str]) -> bool:
    told, others = found["told"], one["told"]
    numbers = zip(DECIMAL.findall(told), DECIMAL.findall(others), strict=False)
    return (
        found | {"told": DECIMAL.sub("#", told)} == one | {"told": DECIMAL.sub("#", others)}
        and all(math.isclose(float(a), float(b), rel_tol=0.01) for a, b in numbers)
    )  # fmt: skip


def judged(lab: str) -> list[dict[str, str]]:
    with Judge() as judge:
        return [row(answer, _told(answer, judge)) for answer in answers_of(lab, "wrong")]


def _told(answer: Answer, judge: Judge) -> Finding:
    lost = judge(answer)
    if answer.exercise not in lost:
        raise SystemExit(
            f"{answer.lab}, {answer.exercise}: the wrong answer {answer.name} loses nothing; see its facts"
        )
    return lost[answer.exercise]


def page() -> str:
    """All tables, to be read by instructors."""
    return TOP + "".join(_section(lab) for lab in LABS)


def _section(lab: str) -> str:
    head = [
        f"\n## {lab}: {load_lab(lab).title}\n",
        "| exercise | misconception | the student is told |",
        "| --- | --- | --- |",
    ]
    return "\n".join([*head, *(f"| {' | '.join(map(_cell, _shown(row)))} |" for row in known(lab)), ""])


def _shown(row: dict[str, str]) -> tuple[str, str, str]:
    return row["exercise"], row["misconception"], row["told"].splitlines()[0]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def main(labs: list[str]) -> None:
    for lab in labs or LABS:
        write_whole(table_of(lab), json.dumps(judged(lab), indent=1, ensure_ascii=False) + "\n")
    write_whole(PAGE, page())


if __name__ == "__main__":
    main(sys.argv[1:])
