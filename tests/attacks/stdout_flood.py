"""Prints 200 MB, writes 200 MB to the file descriptors 1 and 2, and warns ten thousand times.

honest: everything
"""

# %% first
import os
import warnings

_line = "x" * 1_000_000
for _ in range(50):
    print(_line)
for _ in range(100):
    os.write(1, b"y" * 1_000_000)
    os.write(2, b"z" * 1_000_000)
for _number in range(10_000):
    warnings.warn(f"careful {_number}")
