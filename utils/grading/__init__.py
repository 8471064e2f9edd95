"""Grading: how a submission is judged, and how a whole class is. What a lab asks is in utils/exercises/facts.

    folder.py         all of it: from what was handed in to marks, pages and files for platforms
    grade.py          points for one submission
    classroom.py      a class: several at once, kept as they come, resumed
    fingerprint.py    what a grade depends on: what has to be judged again, and what not
    roster.py         who is in the class: platforms' tables, and whose row is whose
    compare.py        answers of a class that are alike

    run/              running what a stranger wrote
    marking/          what an instructor and the clock make of a grade
    tell/             telling about it: pages, tables, files for learning platforms

A fact is judged in the grader's process, from plain data. The student's code runs elsewhere.
"""
