"""Grading: what a lab asks, how an answer is judged, and how a whole class is.

    facts.py          what a lab claims about a right answer, fact by fact
    probes.py         looks at the student's objects, beside the student's code, and tells plain data
    plain.py          the plain data: JSON, with arrays

    submissions.py    what was handed in
    sandbox.py        bubblewrap and limits around a submission's process
    kernel.py         a submission running in that process, and the grader's end of the talk with it
    inside.py         the other end: what starts there
    seal.py           the observer there, which nothing of the notebook can reach
    system_calls.py   what the kernel refuses it
    strict.py         looking at a stranger's objects without asking them
    grade.py          points for one submission
    classroom.py      a class: several at once, kept as they come, resumed

    feedback.py       a page for each student
    report.py         a page about the class, for the instructor
    misconceptions.py what a failed fact may come from
    exports.py        grades.csv, and tables for learning platforms
    pages.py          what the pages share

A fact is judged in the grader's process, from plain data. The student's code runs elsewhere.
"""
