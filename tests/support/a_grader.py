"""A process that grades what it is asked to, for tests that hand in what may harm it.

    python -m tests.support.a_grader

A request is a line of JSON, and the answer is one: the arguments of `grade_one` or of `grade_class`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import sys
import tempfile
import traceback
from pathlib import Path

from utils.course.cli import app
from utils.exercises.facts import load_lab
from utils.grading.grade import grade_submission
from utils.grading.run.kernel import Limits
from utils.grading.run.submissions import Submission
from utils.grading.tell.exports import write_grades
from utils.grading.tell.feedback import student_text

LIMITS = {"start": 90, "cell": 6, "call": 8, "submission": 150}


def serve() -> None:
    """Grade what comes, a line of JSON each; answer with a line. What graded code prints goes nowhere."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            result = grade_class(**request) if "arguments" in request else grade_one(**request)
        except BaseException:
            result = {"failed": f"the grader raised: {traceback.format_exc()[-3000:]}"}
        answers.write(json.dumps(result) + "\n")
        answers.flush()


def grade_one(path: str, lab: str, within: float, left_out: list[str]) -> dict:
    """Grade one notebook, without the exercises that are `left_out`."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    judged_by = load_lab(lab, hidden=True)
    for name in left_out:
        del judged_by.exercises[name]
    grade = grade_submission(Submission("mallory", Path(path)), judged_by, Limits(**LIMITS | {"submission": within}))
    text = student_text(grade, judged_by)
    text.encode()
    table = Path(tempfile.gettempdir(), "table.csv")
    write_grades([grade], judged_by, table)
    stars = grade.stars(judged_by)
    points = grade.points | {name: int(name in stars) for name in judged_by.stars}
    result = {"points": points, "status": grade.status, "note": grade.note, "feedback": text}
    result |= {"table": table.read_text(), "flags": grade.flags}
    table.unlink()
    return result | {"grew": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024}


def grade_class(arguments: list[str]) -> dict:
    """Run `course` with these arguments: what it printed."""
    told = io.TextIOWrapper(io.BytesIO(), errors="replace")
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        app(arguments, standalone_mode=False)
    told.flush()
    return {"told": told.buffer.getvalue().decode(errors="replace")}


if __name__ == "__main__":
    serve()
