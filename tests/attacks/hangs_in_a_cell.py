"""A cell that never ends and swallows every KeyboardInterrupt and signal.

honest: everything
"""

# %% first
import signal
import time

for _number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM, signal.SIGXCPU):
    signal.signal(_number, signal.SIG_IGN)
while True:
    try:
        time.sleep(1)
    except BaseException:
        pass
