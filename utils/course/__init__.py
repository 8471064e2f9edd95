"""The course itself: its command, what students get, the lessons as files.

cli.py        the command `course`
release.py    from the sources of the labs to what students get
lessons.py    running a lesson and keeping its outputs
badges.py     buttons that open a page on Colab, Kaggle or Binder
"""
