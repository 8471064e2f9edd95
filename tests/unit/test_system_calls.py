"""The filter of system calls: read by a small interpreter of its language, and by the kernel itself."""

import struct
import subprocess
import sys

import pytest

from utils.grading.run import system_calls
from utils.grading.run.system_calls import ALLOW, AUDIT_ARCH, NUMBERS, REFUSE, program

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seccomp is Linux's")


def verdict(code: bytes, number: int, architecture: int) -> int:
    lines, at, word = [struct.unpack("HBBI", code[n : n + 8]) for n in range(0, len(code), 8)], 0, 0
    while True:
        what, if_true, if_false, value = lines[at]
        at += 1
        if what == system_calls.LOAD:
            word = {system_calls.NUMBER_AT: number, system_calls.ARCHITECTURE_AT: architecture}[value]
        elif what == system_calls.RETURN:
            return value
        else:
            true = word == value if what == system_calls.IF_EQUAL else word >= value
            at += if_true if true else if_false


@pytest.mark.parametrize("machine", NUMBERS)
def test_the_named_calls_are_refused_and_no_others(machine):
    code, own = program(machine), AUDIT_ARCH[machine]
    refused = {number for number in range(1000) if verdict(code, number, own) == REFUSE}
    assert refused == set(NUMBERS[machine].values())
    assert verdict(code, 0, own) == ALLOW
    assert verdict(code, 0, 0x40000003) == REFUSE  # 32-bit calls have other numbers
    assert verdict(code, 0x40000000, own) == REFUSE  # so have those of x32


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
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["refused", "refused", "1"], done.stderr
