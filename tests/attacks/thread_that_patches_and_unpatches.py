"""A thread puts lying functions in place thousands of times a second and takes them away again.

may lose: everything
"""

# %% first
import sys
import threading
import time

from utils.exercises.facts import probes

_true, _inside = probes.device_of, threading.Event()


def _lie(value):
    return value.__dict__.get("_says", "nowhere")


def _flicker():
    end = time.monotonic() + 40
    while time.monotonic() < end:
        probes.device_of = _lie
        vars(probes)["sorted"] = lambda found: sorted(found)
        time.sleep(0.0002)
        probes.device_of = _true
        vars(probes).pop("sorted", None)
        time.sleep(0.0001)


sys.setswitchinterval(1e-5)
for _ in range(3):
    threading.Thread(target=_flicker, daemon=True).start()

# %% instead of ex1: cpu_layers
