"""Processes that are forked from one which has loaded what they need: a notebook's ranks, and kernels.

fork_server.py is the process that forks, forking.py its client. utils/ranks and utils/grading/run say what is loaded
and what a child does.
"""
