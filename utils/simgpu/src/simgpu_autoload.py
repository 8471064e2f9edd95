"""What PyTorch calls at the end of `import torch`, through its entry point torch.backends.

A module of its own, because every program that imports torch loads it: it costs nothing unless SIMGPU is set.
"""

import os
import sys

is_due = False  # `import simgpu` has imported torch and goes on after it: its last line does what SIMGPU asks


def start() -> None:
    global is_due
    if os.environ.get("SIMGPU"):
        begun = sys.modules.get("simgpu")
        is_due = begun is not None and not hasattr(begun, "enable")
        if not is_due:
            from simgpu.environment import enable_as_asked

            enable_as_asked(os.environ)
