"""The tasks in the lessons. lesson01/ has those of lesson 01:

facts.py    what is checked
worked.py   working versions in plain PyTorch, to go on with where a task was skipped, and to compare with
"""
