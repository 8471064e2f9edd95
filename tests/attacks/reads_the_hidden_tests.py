"""Reads the hidden tests, the solutions and the answers of the tests, by every path that could lead there.

honest: everything
"""

# %% first
import glob
import os
import sys

import utils

_roots = {"@ROOT@", os.path.dirname(os.path.dirname(utils.__file__)), "/proc/1/cwd", f"/proc/{os.getppid()}/cwd"}
_roots |= {f"/proc/{os.getppid()}/root@ROOT@", "/proc/1/root@ROOT@", os.getcwd(), *sys.path}
for _root in _roots:
    for _path in ("solutions/lab01/hidden.py", "solutions/lab01/lab01_split_a_model.ipynb", "labs/lab01/facts.py", ".git"):
        if os.path.exists(os.path.join(_root, _path)):
            raise RuntimeError(f"LOOT: {_path} is there, by {_root}")
_found = glob.glob(os.path.join(os.path.dirname(utils.__file__), "**", "*hidden*"), recursive=True)
if _found:
    raise RuntimeError(f"LOOT: {_found}")
