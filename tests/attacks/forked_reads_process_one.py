"""Reaches for the memory, the files, the sockets and the environment of the process that it was forked from.

may lose: everything
"""

# %% first
import ctypes
import os
import socket

_libc = ctypes.CDLL(None, use_errno=True)
_numbers = sorted({1, 2, os.getppid(), *map(int, filter(str.isdigit, os.listdir("/proc")))} - {os.getpid()})
for _number in _numbers:
    for _name in ("mem", "environ", "root/", "cwd/", "fd/", "fdinfo/", "maps", "auxv", "map_files/", "exe", "io"):
        try:
            _path = f"/proc/{_number}/{_name}"
            os.listdir(_path) if _path.endswith("/") else open(_path, "rb").read(100)
        except OSError:
            continue
        if os.path.exists(f"/proc/{_number}"):
            raise RuntimeError(f"LOOT: {_path} can be read")
    try:
        _pidfd = os.pidfd_open(_number)
    except OSError:
        continue
    for _fd in range(30):
        if _libc.syscall(438, _pidfd, _fd, 0) >= 0:
            raise RuntimeError(f"LOOT: file {_fd} of process {_number} can be taken")
    for _call in (310, 311):
        if _libc.syscall(_call, _number, None, 0, None, 0, 0) >= 0:
            raise RuntimeError(f"LOOT: the memory of process {_number} can be asked for")
    if _libc.ptrace(16, _number, None, None) == 0:
        raise RuntimeError(f"LOOT: process {_number} can be traced")
for _name in os.listdir("/proc/self/fd"):
    try:
        _socket = socket.socket(fileno=os.dup(int(_name)))
    except OSError:
        continue
    if _socket.family == socket.AF_UNIX and _socket.type == socket.SOCK_SEQPACKET:
        raise RuntimeError("LOOT: it has a socket of the process that forks")
    _socket.close()
for _line in open("/proc/self/maps"):
    _words = _line.split()
    if _words[1].endswith("s") and "w" in _words[1]:
        raise RuntimeError(f"LOOT: it shares memory that it may write to: {_words[-1]}")
