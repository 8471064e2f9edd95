"""The tables of a class: grades.csv, and files that learning platforms import.

Each of those is made from what the platform itself exported, so that its ids are in it:

    write_exports(grades, lab, out / "exports", read_gradebook(Path("gradebook.csv")))

Only a sure mark is exported. A crash or a missing notebook is not a zero, and an empty mark is not harmless: Moodle's
gradebook and Canvas take it as "delete the mark that is there". So a student without a sure mark is in look_at.csv,
with the reason and the points that were found, and not in the platform's file. Every student is in one of the two.

    tables.py       grades.csv, and the files of all platforms
    canvas.py, moodle.py, gradescope.py: whose gradebook it is, and writing that platform's file
    marks.py        the sure marks, whose they are, and who has to be looked at
"""

from utils.grading.tell.exports.tables import Exported, write_exports, write_grades

__all__ = ["Exported", "write_exports", "write_grades"]
