"""Writes into the fork server's folder, exchanges the sockets and the connection file, and listens there itself.

may lose: everything
"""

# %% first
import os
import socket

_own = get_ipython().kernel.parent
_sockets, _connection = os.path.dirname(_own.ip), _own.connection_file
try:
    with open(_connection, "a") as _file:
        _file.write(" ")
    raise RuntimeError("LOOT: the connection file can be written to")
except OSError:
    pass
for _path in (_connection, os.path.dirname(_connection), _sockets):
    for _change in (lambda path: os.rename(path, f"{path}-@MARK@"), lambda path: os.chmod(path, 0o777) or os.chown(path, 0, 0)):
        try:
            _change(_path)
        except OSError:
            continue
        raise RuntimeError(f"LOOT: {_path} can be changed")
if os.getuid() >= 1_000_000:  # otherwise it is the grader's own user, and the folder of sockets stays open to it
    for _number in range(1, 6):
        try:
            os.rename(f"{_own.ip}-{_number}", f"{_own.ip}-@MARK@")
        except OSError:
            continue
        raise RuntimeError("LOOT: a socket can be exchanged")
    try:
        socket.socket(socket.AF_UNIX).bind(os.path.join(_sockets, "k-9"))
        raise RuntimeError("LOOT: it can listen in the folder of sockets")
    except OSError:
        pass
