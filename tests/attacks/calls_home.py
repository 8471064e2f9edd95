"""Sends what it has to a listener on this machine: TCP, UDP, a Unix socket, an abstract one, and a link-local name.

honest: everything
"""

# %% first
import socket

_tries = [
    (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", int("@PORT@"))),
    (socket.AF_INET, socket.SOCK_STREAM, ("localhost", int("@PORT@"))),
    (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", int("@PORT@"))),
    (socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:127.0.0.1", int("@PORT@"))),
    (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", int("@UDP@"))),
    (socket.AF_UNIX, socket.SOCK_STREAM, "@SOCKET@"),
    (socket.AF_UNIX, socket.SOCK_STREAM, "\0@ABSTRACT@"),
]
for _family, _kind, _address in _tries:
    try:
        with socket.socket(_family, _kind) as _line:
            _line.settimeout(1)
            _line.connect(_address)
            _line.send(b"the hidden tests")
    except OSError:
        pass
