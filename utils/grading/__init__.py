"""Grading: what a lab asks, how an answer is judged, and how a whole class is.

    facts.py       what a lab claims about a right answer, fact by fact
    probes.py      looks at the student's objects, beside the student's code, and tells plain data
    plain.py       the plain data: JSON, with arrays
    kernel.py      a submission running in a process of its own
    submissions.py what was handed in
    grade.py       points for one submission, and for a class

A fact is judged in the grader's process, from plain data. The student's code runs elsewhere.
"""
