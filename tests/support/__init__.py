"""What several test files share.

    notebooks.py        a lab's notebook, with some answers put in, and running it here without a kernel
    parts.py            a file of several pieces of code, each below its headline
    answers.py          the answers that the graders are tested with (solutions/lab01/answers/ex2.py)
    names.py            what an answer can change: names, by reading code
    judging.py          an answer judged in a fork of a process that is warm
    misconceptions.py   what the students of the wrong answers are told: a table for each lab, and a page of the docs
    a_grader.py         a process that grades what may harm it
    a_class.py          a class of generated students
    kill_and_resume.py  that class, graded by a grader that is killed

Test files say `from support.answers import ...`. By hand: `.venv/bin/python -m tests.support.misconceptions`, from the
root of the repository.
"""
