"""Starts 400 processes that live for 4 seconds, and as many threads.

honest: everything
"""

# %% first
import os
import threading
import time

_started = 0
try:
    for _ in range(400):
        if os.fork() == 0:
            time.sleep(4)
            os._exit(0)
        _started += 1
except OSError:
    pass
if _started > 250:
    raise RuntimeError(f"LOOT: {_started} processes at once")
