"""Exercise 1 kills its parent, its process group, and every process that it may; first it looks who is there.

The grader, and a sentry beside it, have to survive. The honest part is the rest.
"""

# %% instead of ex1
def make_layers(device0, device1):
    import os
    import signal

    sentry = 0
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline") as file:
                if "sentry-@MARK@" in file.read():
                    sentry = int(number)
        except OSError:
            pass
    if sentry:  # not alone here: enough to show it, and no other process is harmed
        os.kill(sentry, signal.SIGKILL)
        os.kill(os.getppid(), signal.SIGKILL)
    else:
        os.kill(-1, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
