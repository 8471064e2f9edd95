"""A child process, which no audit hook watches, opens the memory of its parent and reads from it.

may lose: everything
"""

# %% first
import os
import subprocess
import sys

_program = """
import os, sys
parent, address = int(sys.argv[1]), int(sys.argv[2])
try:
    with open(f"/proc/{parent}/mem", "rb", 0) as file:
        file.seek(address)
        print("READ" if file.read(8) else "")
except OSError:
    pass
"""
try:
    import ctypes

    ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # any process may trace this one
except Exception:
    pass
_child = [sys.executable, "-c", _program, str(os.getpid()), str(id(_program))]
_done = subprocess.run(_child, capture_output=True, text=True, timeout=20)
if "READ" in _done.stdout:
    raise RuntimeError("LOOT: a child process reads the memory in which the grader's secret is")
