"""Calls what listens outside: by loopback, by abstract and named sockets, and through the folders of process 1.

honest: everything
"""

# %% first
import os
import socket

_targets = [(socket.AF_INET, ("127.0.0.1", int("@PORT@"))), (socket.AF_INET6, ("::1", int("@PORT@")))]
_targets += [(socket.AF_INET, (socket.gethostname(), int("@PORT@"))), (socket.AF_INET, ("0.0.0.0", int("@PORT@")))]
_paths = ("\0@ABSTRACT@", "@SOCKET@", "/proc/1/root@SOCKET@", f"/proc/{os.getppid()}/root@SOCKET@", "/run/dbus/system_bus_socket")
_targets += [(socket.AF_UNIX, path) for path in _paths]
for _family, _target in _targets:
    try:
        with socket.socket(_family) as _line:
            _line.settimeout(1)
            _line.connect(_target)
    except OSError:
        continue
    raise RuntimeError(f"LOOT: {_target} answers")
if set(os.listdir("/sys/class/net") if os.path.isdir("/sys/class/net") else ["lo"]) - {"lo"}:
    raise RuntimeError("LOOT: there is a network")
if len(open("/proc/net/dev").readlines()) > 3:
    raise RuntimeError("LOOT: there is a network")
with open("/proc/net/unix") as _file:
    for _line in _file:
        _path = (_line.split() + [""])[7:8]
        if _path and _path[0].startswith("/") and not _path[0].startswith(os.path.dirname(get_ipython().kernel.parent.ip)):
            raise RuntimeError(f"LOOT: a socket of others: {_path[0]}")
