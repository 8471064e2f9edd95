"""What PyTorch calls at the end of `import torch`, through its entry point torch.backends.

A module of its own, because every program that imports torch loads it: it costs nothing unless SIMGPU is set.
"""

import os


def start() -> None:
    if os.environ.get("SIMGPU"):
        from simgpu.environment import enable_as_asked

        enable_as_asked(os.environ)
