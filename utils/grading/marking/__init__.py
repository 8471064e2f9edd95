"""From what the grader found to marks: what an instructor decides, kept in files that no run writes over.

mark.py        a grade with an instructor's changes, and the mark that it makes
overrides.py   overrides.csv: points, totals and penalties that an instructor has changed
words.py       words.csv: points for answers in words
outline.py     a lab's exercises and points, without loading it
late.py        who was late, by a platform's tables or by a deadline, and what that costs
by_hand.py     reading tables that an instructor has filled in
"""
