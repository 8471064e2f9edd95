"""Fills memory that belongs to no process: anonymous files (memfd), pipes and sockets, 1.5 GB in all.

honest: everything
"""

# %% first
import os

_files, _block = [], b"x" * 2**20
try:
    for _number in range(100):
        _files.append(os.memfd_create(f"m{_number}"))
        for _ in range(15):
            os.write(_files[-1], _block)
    raise RuntimeError("LOOT: 1.5 GB of memory without being anybody's")
finally:
    for _file in _files:
        os.close(_file)
