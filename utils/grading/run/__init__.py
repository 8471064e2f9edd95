"""Running what a stranger wrote: the grader's end, and the end in the stranger's process.

submissions.py      what was handed in
sandbox.py          bubblewrap and limits around a submission's process
kernel.py           a submission running in that process, and the grader's end of the talk with it

student_process.py  the other end: what starts there
observer.py         who looks there, and what nothing of the notebook can reach
system_calls.py     what the Linux kernel refuses it
"""
