"""Writes 100 files of 15 MB wherever it may write: its folder, /tmp, /dev/shm, /var/tmp, the folder of its sockets.

honest: everything
"""

# %% first
import os

from ipykernel.connect import get_connection_file

_kernel = get_ipython().kernel
_places = [os.getcwd(), "/tmp", "/dev/shm", "/var/tmp", os.path.dirname(get_connection_file())]
_places += [os.path.dirname(_kernel.parent.ip), os.path.expanduser("~")]
_written, _block, _made = {}, b"x" * (15 * 2**20), []
for _place in dict.fromkeys(_places):
    try:
        for _number in range(100):
            _made.append(os.path.join(_place, f"@MARK@-{_number}"))
            with open(_made[-1], "wb") as _file:
                _file.write(_block)
            _written[_place] = _written.get(_place, 0) + 15
    except OSError:
        pass
for _path in _made:
    try:
        os.unlink(_path)
    except OSError:
        pass
_most = max(_written.values(), default=0)
if _most > 1000 or sum(_written.values()) > 2000:
    raise RuntimeError(f"LOOT: {_written} MB could be written")
