"""System calls that a submission has no use for, refused by the kernel from now on (seccomp). Linux only.

Limits on a process hold for memory that is a process's. These calls make memory that is no process's (also by mounting
a folder in memory, as the root of a user namespace may), use up slots that the whole machine shares, look into other
processes, or reach parts of the kernel that a notebook never needs.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
from errno import ENOSYS, EPERM

# What each is called on the two architectures that PyTorch is released for, by number (the kernel's syscall tables).
NUMBERS = {
    "x86_64": {
        **{"memfd_create": 319, "memfd_secret": 447, "shmget": 29, "msgget": 68, "io_uring_setup": 425},
        **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "userfaultfd": 323},
        **{"bpf": 321, "perf_event_open": 298, "add_key": 248, "request_key": 249, "keyctl": 250},
        **{
            "semget": 64,
            "io_setup": 206,
            "mq_open": 240,
            "unshare": 272,
            "setns": 308,
            "mount": 165,
            "fsopen": 430,
            "open_tree": 428,
            "move_mount": 429,
        },
    },
    "aarch64": {
        **{"memfd_create": 279, "memfd_secret": 447, "shmget": 194, "msgget": 186, "io_uring_setup": 425},
        **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "userfaultfd": 282},
        **{"bpf": 280, "perf_event_open": 241, "add_key": 217, "request_key": 218, "keyctl": 219},
        **{
            "semget": 190,
            "io_setup": 0,
            "mq_open": 180,
            "unshare": 97,
            "setns": 268,
            "mount": 40,
            "fsopen": 430,
            "open_tree": 428,
            "move_mount": 429,
        },
    },
}
# A process may be forked, and a thread started, but in no new namespace. The flags of clone3 lie in memory, where no
# filter can read them: it is said not to be there, and the C library takes clone.
CLONE, CLONE3 = {"x86_64": 56, "aarch64": 220}, 435
NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
SECCOMP = {"x86_64": 317, "aarch64": 277}
SET_MODE_FILTER, EVERY_THREAD, NO_NEW_PRIVILEGES = 1, 1, 38
# The filter's language, classic BPF: load a word of the call's description, compare and skip, return.
LOAD, IF_EQUAL, IF_AT_LEAST, IF_ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
ALLOW, REFUSE, NOT_THERE = 0x7FFF0000, 0x00050000 | EPERM, 0x00050000 | ENOSYS
OTHER_ABI = 0x40000000  # x32's numbers begin here, on x86_64


def refuse() -> None:
    """Refuse them in this process and all that it starts. Raises OSError where the kernel cannot.

    Elsewhere than on Linux, and on other architectures, it does nothing.
    """
    machine = platform.machine()
    if not sys.platform.startswith("linux") or machine not in NUMBERS:
        return
    code = program(machine)
    buffer = ctypes.create_string_buffer(code, len(code))
    # struct sock_fprog: the number of instructions, and where they are
    description = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(
        SECCOMP[machine], SET_MODE_FILTER, EVERY_THREAD, description
    ):
        raise OSError(ctypes.get_errno(), "the kernel refuses to filter system calls (seccomp)")


def program(machine: str) -> bytes:
    """The filter for an architecture: eight bytes for each instruction."""
    refused = sorted(NUMBERS[machine].values())
    after = [
        (RETURN, 0, 0, ALLOW),
        (LOAD, 0, 0, FIRST_ARGUMENT_AT),
        (IF_ANY_BIT, 1, 0, NEW_NAMESPACES),
        (RETURN, 0, 0, ALLOW),
        (RETURN, 0, 0, REFUSE),
        (RETURN, 0, 0, NOT_THERE),
    ]
    flags, refuse_it, not_there = 1, 4, 5  # lines of `after`
    tests = [(IF_AT_LEAST, refuse_it, OTHER_ABI), *((IF_EQUAL, refuse_it, number) for number in refused)]
    tests += [(IF_EQUAL, not_there, CLONE3), (IF_EQUAL, flags, CLONE[machine])]
    lines = [(LOAD, 0, 0, ARCHITECTURE_AT), (IF_EQUAL, 0, 1 + len(tests) + refuse_it, AUDIT_ARCH[machine])]
    lines.append((LOAD, 0, 0, NUMBER_AT))
    lines += [(what, len(tests) - 1 - place + to, 0, value) for place, (what, to, value) in enumerate(tests)]
    return b"".join(struct.pack("HBBI", *line) for line in [*lines, *after])
