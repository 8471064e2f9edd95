"""Looks for what an earlier one left in what forks share, and leaves flags, files, semaphores and sockets itself.

honest: ex1, ex2, ex3, ex4, ex5
"""

# %% first: passed_on
_look()
_leave()
