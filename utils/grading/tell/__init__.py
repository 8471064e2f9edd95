"""Telling about grades.

feedback.py       a page for each student
report.py         a page about the class, for the instructor
misconceptions.py what a failed fact may come from
exports/          grades.csv, and files for learning platforms, one module each
pages.py          what the pages share
text.py           text of strangers made harmless
"""
