"""Namespaces, mounts and privileges of a forked process: what bubblewrap does for a new one. Linux only.

The fork begins with all that its parent has. `unshare_namespaces` and `setup_mounts` give it namespaces of its own
(processes, mounts, network, messages between processes, names of the machine) with an empty /tmp, /dev/shm and home;
`join_namespaces` takes it into those of another. `drop_privileges` takes its privileges and what it could use without
bounds, `close_files` its open files. Manual pages:
namespaces(7), mount(2), capabilities(7).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import socket
import stat
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET = (
    *(0x00020000, 0x02000000, 0x04000000, 0x08000000),
    *(0x10000000, 0x20000000, 0x40000000),
)
READ_ONLY, NOSUID, NODEV, NOEXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 0x1000, 0x4000, 0x40000
SET_DUMPABLE, DROP_FROM_BOUNDING_SET, NO_NEW_PRIVILEGES = 4, 24, 38
CAPABILITIES_VERSION, LAST_CAPABILITY = 0x20080522, 63
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1

COVER = f"mode=755,size={2**20}"  # of a folder in memory that has only the way to what is kept

libc = ctypes.CDLL(None, use_errno=True)


def keep_memory_private(private: bool = True) -> None:
    """No process may read or write the memory of this one as a file, nor of its children."""
    _call("prctl", SET_DUMPABLE, 0 if private else 1, 0, 0, 0)


def unshare_namespaces() -> None:
    """Leave the parent's namespaces (unshare(2)). The next child is the first process of a new one. Raises OSError."""
    rooms = NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWPID | NEWNET
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _call("unshare", rooms)
    else:
        # The user who may do this is unknown outside. The files that say so belong to root while the memory is private.
        keep_memory_private(False)
        _call("unshare", rooms | NEWUSER)
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        keep_memory_private()
    _call("mount", b"none", b"/", None, RECURSIVE | PRIVATE, None)


def join_namespaces(process: int) -> None:
    """Enter all namespaces but the network's of a process, which a pidfd is of. A child is in its PID namespace.

    Linux 5.8. Raises OSError: setns(2).
    """
    own_users = 0 if os.geteuid() == 0 else NEWUSER  # root's rooms have no namespace of users
    _call("setns", process, NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWPID | own_users)


def setup_mounts(
    empty: Mapping[str, int],
    covered: Sequence[str] = (),
    readable: Sequence[str] = (),
    writable: Sequence[str] = (),
    *,
    kept: Sequence[str] = (),
    ways: Sequence[str] = (),
) -> None:
    """Make a /proc of these namespaces, and the empty folders, each with so many bytes at most.

    The folders in `covered` are empty too, and cannot be written to. The files in `readable`, the folders in
    `writable`, and what is `kept`, which is as writable as it was, stay: also below such a folder. `ways` lead to what
    is kept (places.py): nothing in them can be written or renamed. To be called in the first process of the new
    namespaces. Raises OSError.
    """
    os.umask(0o022)  # the grader's own might shut the student out of folders on the way
    _mount("proc", "/proc", NOSUID | NODEV | NOEXEC)
    kept = [path for path in kept if any(Path(path).is_relative_to(folder) for folder in empty)]
    ways = [way for way in ways if any(Path(path).is_relative_to(way) for path in kept)]
    stay = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*kept, *readable, *writable)}
    options = {folder: f"mode=1777,size={size}" for folder, size in empty.items()}
    for folder, option in (options | dict.fromkeys((*ways, *covered), COVER)).items():
        Path(folder).mkdir(parents=True, exist_ok=True)  # it may be below one that is empty now
        _mount("tmpfs", folder, NOSUID | NODEV, option)
    for path, place in stay.items():
        target = Path(path)
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        target.mkdir(exist_ok=True) if stat.S_ISDIR(os.fstat(place).st_mode) else target.touch()
        _call("mount", f"/proc/self/fd/{place}".encode(), os.fsencode(path), None, BIND, None)
        if path in readable:
            _read_only(path, BIND | NOEXEC)
        os.close(place)
    for folder in (*ways, *covered):
        _read_only(folder, 0)
    _start_loopback()


def _read_only(path: str, flags: int) -> None:
    _call("mount", b"none", os.fsencode(path), None, REMOUNT | READ_ONLY | NOSUID | NODEV | flags, None)


def close_files(keep: Sequence[int] = ()) -> None:
    """No file stays open but 0 to 2 and `keep`."""
    below = 3
    for descriptor in sorted(keep):
        os.closerange(below, descriptor)
        below = descriptor + 1
    os.closerange(below, resource.getrlimit(resource.RLIMIT_NOFILE)[1])


def drop_privileges(user: int | None, limits: Mapping[str, int]) -> None:
    """Become `user` (None: who it is), with no privileges, within limits.

    `limits` are those of the module `resource`, without "RLIMIT_". Raises OSError.
    """
    for capability in range(LAST_CAPABILITY + 1):
        libc.prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)  # an error: there is none of this number
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    header, nothing = struct.pack("Ii", CAPABILITIES_VERSION, 0), bytes(24)
    _call("capset", header, nothing)
    _call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    keep_memory_private()


def trial(kept: Sequence[str] = ()) -> None:
    """Do all of it once, in a child of a child. Raises OSError where it cannot be done here."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            unshare_namespaces()
            first = os.fork()
            if first == 0:
                setup_mounts({"/tmp": 2**20}, kept=kept)
                drop_privileges(None, {"CORE": 0})
                os._exit(0)
            code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
        except OSError as error:
            code = error.errno
        finally:
            os._exit(code & 0xFF)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


def _mount(kind: str, place: str, flags: int, options: str = "") -> None:
    _call("mount", kind.encode(), os.fsencode(place), kind.encode(), flags, options.encode() or None)


def _start_loopback() -> None:
    """A new network has a loopback that is off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name = struct.pack("16sH22x", b"lo", 0)
        flags = struct.unpack("16sH22x", fcntl.ioctl(any_socket, GET_FLAGS, name))[1]
        fcntl.ioctl(any_socket, SET_FLAGS, struct.pack("16sH22x", b"lo", flags | UP))


def _call(function: str, *arguments) -> None:
    if getattr(libc, function)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{function}: {os.strerror(number)}")
