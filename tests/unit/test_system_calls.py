"""The filter of system calls: read by a small interpreter of its language, and by the kernel itself."""

import struct
import subprocess
import sys

import pytest

from utils.grading.run import system_calls
from utils.grading.run.system_calls import ALLOW, AUDIT_ARCH, CLONE, CLONE3, NOT_THERE, NUMBERS, REFUSE, program

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp is Linux's")


def verdict(code: bytes, number: int, architecture: int, argument: int = 0) -> int:
    lines, at, word = [struct.unpack("HBBI", code[n : n + 8]) for n in range(0, len(code), 8)], 0, 0
    while True:
        what, if_true, if_false, value = lines[at]
        at += 1
        if what == system_calls.LOAD:
            word = {
                system_calls.NUMBER_AT: number,
                system_calls.ARCHITECTURE_AT: architecture,
                system_calls.FIRST_ARGUMENT_AT: argument,
            }[value]
        elif what == system_calls.RETURN:
            return value
        else:
            true = {
                system_calls.IF_EQUAL: word == value,
                system_calls.IF_AT_LEAST: word >= value,
                system_calls.IF_ANY_BIT: bool(word & value),
            }[what]
            at += if_true if true else if_false


@pytest.mark.parametrize("machine", NUMBERS)
def test_the_named_calls_are_refused_and_no_others(machine):
    code, own = program(machine), AUDIT_ARCH[machine]
    refused = {number for number in range(1000) if verdict(code, number, own) == REFUSE}
    assert refused == set(NUMBERS[machine].values())
    assert {number for number in range(1000) if verdict(code, number, own) == NOT_THERE} == {CLONE3}
    assert verdict(code, 1, own) == ALLOW
    assert verdict(code, 0, 0x40000003) == REFUSE  # 32-bit calls have other numbers
    assert verdict(code, 0x40000000, own) == REFUSE  # so have those of x32


@pytest.mark.parametrize("machine", NUMBERS)
def test_a_process_is_made_in_no_new_namespace(machine):
    flags = dict.fromkeys((0x11, 0x3D0F00, 0x4111), ALLOW)  # fork, pthread_create, vfork (of glibc)
    new = (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)
    flags |= {0x11 | flag: REFUSE for flag in new}
    code, own = program(machine), AUDIT_ARCH[machine]
    assert {flag: verdict(code, CLONE[machine], own, flag) for flag in flags} == flags


@linux
def test_the_kernel_refuses_them_in_threads_and_children_too():
    script = """
import os, subprocess, sys, threading
from utils.grading.run.system_calls import refuse
go = threading.Event()
def attempt():
    go.wait()
    try:
        os.memfd_create("x")
        print("made")
    except PermissionError:
        print("refused")
thread = threading.Thread(target=attempt)
thread.start()
refuse()
go.set()
thread.join()
attempt()
print(subprocess.run([sys.executable, "-c", "import os; os.memfd_create('x')"], stderr=subprocess.DEVNULL).returncode)
import ctypes, platform
clone = {"x86_64": 56, "aarch64": 220}[platform.machine()]
print(ctypes.CDLL(None, use_errno=True).syscall(clone, 0x10000000 | 17, 0, 0, 0, 0), ctypes.get_errno())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["refused", "refused", "1", "-1", "1"], done.stderr
