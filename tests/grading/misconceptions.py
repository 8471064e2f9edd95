"""Writes what is wrong and what the student is told: into the instructor's guide, and as data for the class report.

.venv/bin/python tests/grading/misconceptions.py [LAB ...]
"""

import contextlib
import io
import json
import os
import re
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[2])]
os.environ["COURSE_DEVICES"] = "simulated"

from conftest import LABS, ROOT, notebook_with, run_here  # noqa: E402
from grading.test_answers import ANSWERS, graded_lab, read_answer  # noqa: E402

from utils import simgpu  # noqa: E402
from utils.facts import Finding, LocalStudent, judge  # noqa: E402
from utils.files import write_whole  # noqa: E402
from utils.grading.tell.misconceptions import TABLE  # noqa: E402

GUIDE = ROOT / "docs" / "instructors.md"
BEGIN, END = "<!-- misconceptions -->", "<!-- end -->"


def failed(lab: str, exercise: str, code: str) -> Finding:
    """The first fact that does not hold for a student with this answer."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        simgpu.enable(count=2)
        student = LocalStudent(run_here(notebook_with(lab, {exercise: code})), ["simgpu:0", "simgpu:1"])
        last = judge(graded_lab(lab).exercises[exercise], student)[-1]
    return Finding("", False, "not caught") if last.holds else last


def rows(lab: str) -> list[dict[str, str]]:
    """Every wrong answer of a lab: what its student thinks, which claim fails, and the words."""
    found = []
    for path in ANSWERS:
        name, verdict, exercise, misconception, code = read_answer(path)
        if name == lab and verdict == "wrong":
            finding = failed(lab, exercise, code)
            row = {"lab": lab, "exercise": exercise, "claim": finding.claim, "told": finding.found}
            found.append(row | {"misconception": one_line(misconception.split("\n\n")[0]), "answer": path.stem})
    return found


def one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def cell(text: str) -> str:
    return one_line(text).replace("|", "\\|")


def table(lab: str, found: list[dict[str, str]]) -> str:
    lines = [f"### {lab}", "", "| exercise | misconception | the student is told |", "| --- | --- | --- |"]
    for row in found:
        lines.append(f"| {row['exercise']} | {cell(row['misconception'])} | {cell(row['told'].splitlines()[0])} |")
    return "\n".join(lines)


def main(labs: list[str]) -> None:
    known = json.loads(TABLE.read_text(encoding="utf-8")) if TABLE.exists() else []
    by_lab = {lab: [row for row in known if row["lab"] == lab] for lab in LABS}
    for lab in LABS:
        if not labs or lab in labs or not by_lab[lab]:
            by_lab[lab] = rows(lab)
    everything = [row for lab in LABS for row in by_lab[lab]]
    write_whole(TABLE, json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    guide = GUIDE.read_text()
    before, _, rest = guide.partition(BEGIN)
    _, _, after = rest.partition(END)
    written = "\n\n".join(table(lab, by_lab[lab]) for lab in LABS)
    GUIDE.write_text(f"{before}{BEGIN}\n\n{written}\n\n{END}{after}")


if __name__ == "__main__":
    main(sys.argv[1:])
