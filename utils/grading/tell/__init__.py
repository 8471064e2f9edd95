"""Telling about grades.

feedback.py       a page for each student
report.py         a page about the class, for the instructor
misconceptions.py what a failed fact may come from
exports.py        grades.csv, and tables for learning platforms
pages.py          what the pages share
"""
