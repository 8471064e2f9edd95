"""Children stop it in the middle of a call, hold the processors for a minute, and are deaf to signals.

The honest part is the rest.
"""

# %% instead of ex1
def make_layers(device0, device1):
    import os
    import signal
    import time

    for number in range(4):
        if os.fork() == 0:
            for deaf in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.pthread_sigmask(signal.SIG_BLOCK, {deaf})
            time.sleep(0.1)
            os.kill(os.getppid(), signal.SIGSTOP)
            end = time.monotonic() + 40
            while time.monotonic() < end:
                pass
            os._exit(0)
    time.sleep(30)
