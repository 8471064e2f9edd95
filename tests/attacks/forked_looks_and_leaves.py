"""Looks for what an earlier one left in what forks share, and leaves flags, files, semaphores and sockets itself.

honest: everything
"""

# %% first: passed_on
_look()
_leave()
