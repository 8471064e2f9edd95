"""Reads another submission, a private file of the instructor, the password files and the processes beside it.

honest: everything
"""

# %% first
import os

for _path in ("@VICTIM@", "@SECRET@", "/etc/shadow", "/proc/1/root@SECRET@", f"/proc/{os.getppid()}/root@SECRET@"):
    try:
        with open(_path, "rb") as _file:
            _content = _file.read(100)
    except OSError:
        continue
    raise RuntimeError(f"LOOT: {_path} has {len(_content)} bytes for me")
for _number in filter(str.isdigit, os.listdir("/proc")):
    try:
        with open(f"/proc/{_number}/cmdline") as _file:
            _line = _file.read()
    except OSError:
        continue
    if "pytest" in _line or "@MARK@" in _line:
        raise RuntimeError(f"LOOT: the processes outside can be seen: {_number}")
