"""Leaves processes behind: forked twice, with a session of their own, no files, and deaf to signals.

honest: everything
"""

# %% first
import os
import subprocess
import sys

_program = """
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(0, 100)
time.sleep(300)
"""
for _ in range(3):
    subprocess.run([sys.executable, "-c", _program, "daemon-@MARK@"])

# %% last
subprocess.run([sys.executable, "-c", _program, "daemon-@MARK@"])
