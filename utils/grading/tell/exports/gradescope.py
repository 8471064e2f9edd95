"""Gradescope: an autograder that returns the results in it, since no way to import marks is documented.

Source, read as it is now: gradescope-autograders.readthedocs.io/en/latest/specs and /submission_metadata.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path

from utils.exercises.facts import Lab
from utils.grading.marking.mark import Mark
from utils.grading.roster import EMAILS, Row, first
from utils.grading.tell.exports.marks import Marks
from utils.grading.tell.feedback import student_text

EARLIEST = (1980, 1, 1, 0, 0, 0)  # a fixed date in the zip: the same grades give the same bytes


def wrote(columns: set[str]) -> bool:
    """Whether a table with these columns is Gradescope's."""
    return "Email" in columns and not columns.isdisjoint({"Name", "First Name", "SID"})


def write(marks: Marks, folder: Path) -> str:
    """Write gradescope.zip; returns what to tell the instructor."""
    results, without = {}, {}
    for grade, row in marks.sure():
        email = _email(grade, row)
        if not email or email in results:
            what = "an email of two students" if email else "no email"
            without[grade.student] = f"gradescope.zip: {what}"
        else:
            results[email] = _result(grade, marks.lab)
    if not results:
        return "gradescope.zip is not written: no email is known. Give a roster with a column Email."
    marks.doubt(without)
    files = {"setup.sh": "#!/bin/sh\n", "run_autograder": RUN_AUTOGRADER}
    files["results.json"] = json.dumps(results, indent=1, sort_keys=True)
    (folder / "gradescope.zip").write_bytes(_zipped(files))
    return (
        f"gradescope.zip: {len(results)} results. Upload it as the autograder of a programming "
        "assignment and regrade. It runs no student's code: it emails the results in it to students."
    )


def _email(grade: Mark, row: Row) -> str:
    """The student's, in small letters: from the platform's file, or a name that is one."""
    known = [found for title in EMAILS if "@" in (found := first(row, [title]))]
    known += [name for name in (grade.student, grade.id) if re.fullmatch(r"\S+@\S+\.\S+", name)]
    return known[0].lower() if known else ""


def _result(grade: Mark, lab: Lab) -> dict:
    tests = [
        {"number": name, "name": e.title, "score": grade.counted.get(name, 0), "max_score": e.points}
        for name, e in lab.graded.items()
    ]
    stars = grade.stars(lab)
    tests += [
        {"number": name, "name": f"{e.title} (star: {'yes' if name in stars else 'no'})"}
        for name, e in lab.stars.items()
    ]
    tests += [
        {"number": question, "name": "In your own words", "score": one.points, "max_score": one.of}
        for question, one in grade.in_words.items()
    ]
    return {"score": grade.mark, "output": student_text(grade, lab), "tests": tests}


def _zipped(files: dict[str, str]) -> bytes:
    with io.BytesIO() as buffer:
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, text in files.items():
                info = zipfile.ZipInfo(name, EARLIEST)
                info.external_attr, info.compress_type = 0o755 << 16, zipfile.ZIP_DEFLATED
                archive.writestr(info, text)
        return buffer.getvalue()


# What Gradescope runs beside each submission. Only Python's own library is there.
RUN_AUTOGRADER = '''#!/usr/bin/env python3
"""Returns the result that was found elsewhere. Without one it fails, which Gradescope shows as no score."""

import json
import sys
from pathlib import Path

here = Path(__file__).resolve().parent
results = json.loads((here / "source" / "results.json").read_text())
users = json.loads((here / "submission_metadata.json").read_text())["users"]
found = [results[user["email"].lower()] for user in users if user["email"].lower() in results]
if len(found) != 1:
    sys.exit(f"{len(found)} results for {[user['email'] for user in users]}: see look_at.csv")
(here / "results").mkdir(exist_ok=True)
(here / "results" / "results.json").write_text(json.dumps(found[0]))
'''
