"""The course itself: its command, what students get, the lessons as files.

cli.py        the command `course`
release.py    from the sources of the labs to what students get
lessons.py    running a lesson and keeping its outputs
measure.py    what this machine's GPUs really do
measured.py   a file of that: written, checked, shown beside predictions
operators.py  the operators that are measured
doctor.py     what works on this machine, and what to do about the rest
badges.py     buttons that open a page on Colab, Kaggle or Binder
"""
