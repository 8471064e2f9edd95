"""Leaves orphans that are stopped, deaf, busy, or called like the fork server, in sessions of their own.

honest: everything
"""

# %% first
import subprocess
import sys

_program = """
import os, signal, sys, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
for _ in range(2):
    if os.fork():
        os._exit(0)
    os.setsid()
if sys.argv[-1] == "stopped":
    os.kill(os.getpid(), signal.SIGSTOP)
end = time.monotonic() + 40
while time.monotonic() < end:
    sum(range(10_000)) if sys.argv[-1] == "busy" else time.sleep(1)
"""
_name = "from utils.processes.fork_server import main; main()"
for _kind in ("stopped", "busy", "idle"):
    subprocess.run(["bash", "-c", 'exec -a "$0" "$@"', _name, sys.executable, "-c", _program, "daemon-@MARK@", _kind])
