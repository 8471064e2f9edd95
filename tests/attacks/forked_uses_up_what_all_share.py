"""Uses up processes, open files, locks and watches, 500 MB of memory, and keeps it all while others are graded.

may lose: everything
"""

# %% first
import fcntl
import os
import sys
import time

import torch

_held, _kept = [], bytearray(500 * 2**20)
try:
    for _path in (sys.executable, torch.__file__, os.__file__, "/dev/null", "/usr/bin/python3", torch._C.__file__):
        if os.path.exists(_path):
            _held.append(open(_path, "rb"))
            fcntl.flock(_held[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    pass
for _ in range(80):
    try:
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)
    except OSError:
        break
try:
    for _ in range(900):
        _held += os.pipe()
except OSError:
    pass
time.sleep(2)
