"""Telling about grades.

feedback.py       a page for each student
report.py         a page about the class, for the instructor
words.py          a page to give points for answers in words
comparison.py     answers that are alike, side by side
certificate.py    a page to print, for who has done the labs
misconceptions.py what a failed fact may come from
whole.py          all of it, for a class
exports/          grades.csv, and files for learning platforms, one module each
pages.py          templates filled in, so that whatever was handed in is text
templates/        their HTML
cells.py          CSV in which nothing is a formula
text.py           text of strangers made harmless
timelines.py      a timeline out of a stranger's data
"""
