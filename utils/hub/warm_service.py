"""The service of a class that has kernels and ranks forked (warm_process.py): it listens where only rooms reach it.

Who asks is what Linux says of the other end. A process gets children in its own room and as its own user, whatever it
sends. Where this cannot be, servers start ordinary kernels, and kernels their own ranks.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import socket
import stat
import struct
import sys
from collections import Counter
from pathlib import Path

from utils.hub import class_folder, room
from utils.hub.priority import serve_first
from utils.processes.fork_server import LARGEST_REQUEST, MOST_FILES
from utils.processes.forking import ForkServer, ForkServerEnded, can_fork, short_path

LOAD = "utils.hub.warm_process:load_for_class"
PEERS_PIDFD, OLDEST_LINUX = 77, (6, 5)  # SO_PEERPIDFD, and who has it first
MOST_CONNECTIONS = 20  # of one user: a server has one, and each kernel that starts ranks
MOST_CHILDREN = 64  # of one request
LARGEST_ASKED = LARGEST_REQUEST - 1000  # bytes
MOST_TRIES = 3  # to start a warm process, one after the other


def no_warm_process() -> str:
    """Why kernels cannot be forked from a warm process here, or nothing."""
    if not can_fork() or tuple(map(int, re.findall(r"\d+", os.uname().release)[:2])) < OLDEST_LINUX:
        return f"it needs Linux {'.'.join(map(str, OLDEST_LINUX))}"
    return ""


class NotAsked(Exception):
    """A message that asks for nothing that can be done."""


class WarmService:
    """Listens in the class's folder, and passes on what rooms ask."""

    def __init__(self, of: class_folder.ClassFolder):
        self._of, self._failed = of, 0
        self._connections: dict[socket.socket, int] = {}  # and their users
        self._server: ForkServer | None = None
        self._selector = selectors.DefaultSelector()
        self._listener = self._listen()
        self._selector.register(self._listener, selectors.EVENT_READ)

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = self._of.warm_socket
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        with short_path(str(path)) as short:
            listener.bind(short)
        path.chmod(0o666)  # rooms see it, and nobody else can come to its folder
        listener.listen(100)
        return listener

    def serve(self) -> None:
        """Until the process ends."""
        self._begin()
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket):
                    self._hear(key.fileobj)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        root = os.geteuid() == 0
        stranger = root and user <= room.FIRST_USER
        most = MOST_CONNECTIONS if root else MOST_CONNECTIONS * len(self._of.students)  # who are all one user there
        if stranger or Counter(self._connections.values())[user] >= most:
            connection.close()
            return
        connection.setblocking(False)
        self._connections[connection] = user
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, connection: socket.socket) -> None:
        """One request. Where it is not passed on, the life of its children closes, and its sender goes on without."""
        files: list[int] = []
        try:
            data, files, _, _ = socket.recv_fds(connection, LARGEST_ASKED + 1, 1 + MOST_FILES)
            if data:
                self._pass_on(connection, data, files)
            else:
                self._forget(connection)
        except (NotAsked, ForkServerEnded) as error:
            print(f"nothing was forked: {error}", file=sys.stderr)
        except OSError:  # the other end is gone
            self._forget(connection)
        finally:
            for file in files:
                os.close(file)

    def _forget(self, connection: socket.socket) -> None:
        if connection in self._connections:
            self._selector.unregister(connection)
            del self._connections[connection]
            connection.close()

    def _pass_on(self, connection: socket.socket, data: bytes, files: list[int]) -> None:
        asked = asked_by(data)
        if not files or not stat.S_ISSOCK(os.fstat(files[0]).st_mode):
            raise NotAsked("a request comes with a socket, for the life of its children")
        user = self._connections[connection] if os.geteuid() == 0 else None
        request = {"count": asked.get("count", 1), "user": user, "limits": room.resources(self._of).limits()}
        who = connection.getsockopt(socket.SOL_SOCKET, PEERS_PIDFD)
        try:
            self._ready().ask({**request, "asked": asked}, files[0], [who, *files[1:]])
        finally:
            os.close(who)

    def _begin(self) -> ForkServer:
        """The warm process, begun where there is none. A fork server ends, too, when it is not as it was."""
        if self._server is None or not self._server.alive():
            if self._server is not None:
                self._server.close()
            quiet = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # ranks would all warn of the same
            environment = {"PATH": os.environ["PATH"], "HOME": str(self._of.hub), **room.environment(self._of), **quiet}
            self._server = ForkServer(LOAD, environment, cwd="/")
        return self._server

    def _ready(self) -> ForkServer:
        if self._failed >= MOST_TRIES:
            raise ForkServerEnded("the warm process did not start")
        server = self._begin()
        try:
            server.wait_until_ready(120)
        except ForkServerEnded:
            self._failed += 1
            raise
        self._failed = 0
        return server


def asked_by(data: bytes) -> dict:
    """What a message asks for. Raises NotAsked."""
    try:
        asked = json.loads(data)
        count = asked.get("count", 1)
    except (ValueError, AttributeError, RecursionError):
        raise NotAsked("this is no request") from None
    if len(data) > LARGEST_ASKED or type(count) is not int or not 1 <= count <= MOST_CHILDREN:
        raise NotAsked(f"a request is for 1 to {MOST_CHILDREN} processes, in {LARGEST_ASKED} bytes")
    return asked


if __name__ == "__main__":
    serve_first()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl+C ends it, and without a traceback
    WarmService(class_folder.read_class(Path(sys.argv[1]))).serve()
