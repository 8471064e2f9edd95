"""Working versions of what the tasks in the lessons ask for: lesson01.py has those of lesson 01.

Plain PyTorch, to go on with where a task was skipped, and to compare with where it was not.
"""
