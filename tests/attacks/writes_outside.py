"""Writes files to the grader's home, to the environment, to the course, to other submissions and to /tmp.

honest: everything
"""

# %% first
import os
import pathlib
import sys
import sysconfig

import utils

_places = ["@HOME@", "@CLASS@", "@ROOT@", "@ROOT@/solutions/lab01", "/tmp", "/var/tmp", "/dev/shm", "/etc", "/usr", "/"]
_places += [sysconfig.get_paths()["purelib"], os.path.dirname(utils.__file__), sys.prefix, sys.base_prefix]
_places += [os.path.join(os.path.dirname(utils.__file__), "grading", "run"), "/proc/1/root/tmp", "/proc/1/cwd"]
_places += [f"/proc/{os.getppid()}/cwd", f"/proc/{os.getppid()}/root/tmp"]
for _place in _places:
    for _path in (f"{_place}/@MARK@-file", f"{_place}/@MARK@.pth"):
        try:
            pathlib.Path(_path).write_text("")
        except OSError:
            pass
    try:
        os.symlink("/etc/passwd", f"{_place}/@MARK@-link")
    except OSError:
        pass
try:
    with open("@VICTIM@", "a") as _file:
        _file.write(" ")
    raise RuntimeError("LOOT: another submission can be changed")
except OSError:
    pass
