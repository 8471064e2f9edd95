"""Writes the table of misconceptions into the instructor's guide: what is wrong, and what the student is told.

.venv/bin/python tests/grading/misconceptions.py [LAB ...]
"""

import contextlib
import io
import os
import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]
os.environ["COURSE_DEVICES"] = "simulated"

from conftest import LABS, ROOT  # noqa: E402
from grading.test_answers import ANSWERS, failures, read_answer  # noqa: E402

GUIDE = ROOT / "docs" / "instructors.md"
BEGIN, END = "<!-- misconceptions -->", "<!-- end -->"


def told(lab: str, exercise: str, code: str) -> str:
    """The first line of what a student with this answer is told."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        lost = failures(lab, {exercise: code})
    return lost.get(exercise, "not caught").splitlines()[0]


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


def table(lab: str) -> str:
    rows = [f"### {lab}", "", "| exercise | misconception | the student is told |", "| --- | --- | --- |"]
    for path in ANSWERS:
        name, verdict, exercise, misconception, code = read_answer(path)
        if name == lab and verdict == "wrong":
            first = misconception.split("\n\n")[0]
            rows.append(f"| {exercise} | {cell(first)} | {cell(told(lab, exercise, code))} |")
    return "\n".join(rows)


def main(labs: list[str]) -> None:
    guide = GUIDE.read_text()
    before, _, rest = guide.partition(BEGIN)
    old, _, after = rest.partition(END)
    sections = dict(re.findall(r"### (lab\d+)\n(.*?)(?=\n### lab|\Z)", old, re.S))
    written = []
    for lab in LABS:
        fresh = not labs or lab in labs or lab not in sections
        written.append(table(lab) if fresh else f"### {lab}\n{sections[lab].rstrip()}")
    GUIDE.write_text(before + BEGIN + "\n\n" + "\n\n".join(written) + "\n\n" + END + after)


if __name__ == "__main__":
    main(sys.argv[1:])
