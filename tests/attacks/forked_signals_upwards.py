"""Sends every signal to process 1, to its session and group, to all, and stops, queues and limits what it can.

honest: everything
"""

# %% first
import os
import signal

for _number in range(1, 65):
    for _target in (1, os.getppid()):
        if _target != os.getpid():
            try:
                os.kill(_target, _number)
            except OSError:
                pass
    try:
        signal.pidfd_send_signal(os.pidfd_open(1), _number)
    except OSError:
        pass
    for _group in (1, 2):
        if os.getpgid(0) != _group:
            try:
                os.killpg(_group, _number)
            except OSError:
                pass
for _call in (lambda: os.setpgid(0, 1), lambda: os.setpgid(1, 1), lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
              lambda: os.sched_setaffinity(1, {0}), lambda: os.kill(-1, signal.SIGSTOP)):
    try:
        _call()
    except OSError:
        pass
if os.getpgid(0) == os.getpgid(1) or os.getsid(0) == os.getsid(1):
    raise RuntimeError("LOOT: it is in the group or the session of the process that it was forked from")
