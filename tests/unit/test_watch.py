"""Memory that a process's resident size does not show counts for its limit, and a busy machine's seconds don't."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from utils.grading.run.sandbox import Resources
from utils.grading.run.watch import Watch

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits are Linux's")
MIB = 2**20
TOO_MUCH = "It used more than 0.146484 GiB of memory."
WAIT = "print('done', flush=True); input()"
USES = {
    "nothing": "",
    "its own": "kept = bytearray(b'x') * (200 * 2**20)",
    "shared, and dropped from its tables": """
kept = mmap.mmap(-1, 200 * 2**20)
kept.write(b'x' * len(kept))
kept.madvise(mmap.MADV_DONTNEED)
""",
    "shared with a child that alone has it": """
kept = mmap.mmap(-1, 200 * 2**20)
kept.write(b'x' * len(kept))
child = os.fork()
if child == 0:
    kept.madvise(mmap.MADV_DONTNEED)
    time.sleep(60)
    os._exit(0)
kept.close()
atexit.register(os.kill, child, 9)
""",
    # One page in each 2 MB is read, all of them the same page of zeros.
    "tables of pages": """
places = 150 * 256
kept = mmap.mmap(-1, places << 21, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000, prot=mmap.PROT_READ)
kept.madvise(15)
for number in range(places):
    kept[number << 21]
""",
}


@pytest.mark.parametrize("name", USES)
def test_memory_counts_wherever_it_is(name, tmp_path):
    code = f"import atexit, mmap, os, time\n{USES[name]}\n{WAIT}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-S", "-c", code], **pipes) as process:
        assert process.stdout.readline() == "done\n"
        parent = psutil.Process(process.pid)
        watch = Watch(Resources(memory=150 * MIB), lambda: [parent, *parent.children(recursive=True)], str(tmp_path))
        assert watch.too_much() == ("" if name == "nothing" else TOO_MUCH)
        process.communicate("\n")


def test_what_forked_processes_share_counts_once(tmp_path):
    code = f"""
import os, sys
kept = bytearray(b'x') * (60 * 2**20)
read, write = os.pipe()
children = []
for _ in range(3):
    if os.fork() == 0:
        os.close(write)
        os.read(read, 1)
        os._exit(0)
{WAIT}
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-S", "-c", code], **pipes) as process:
        assert process.stdout.readline() == "done\n"
        parent = psutil.Process(process.pid)
        watch = Watch(Resources(memory=150 * MIB), lambda: [parent, *parent.children(recursive=True)], str(tmp_path))
        assert len(watch.processes()) == 4
        assert watch.too_much() == ""
        process.communicate("\n")


SPINS = "import os; os.sched_setaffinity(0, {int(os.environ['CPU'])}); print('begins', flush=True)\nwhile True: pass"


@pytest.mark.parametrize("others", [0, 2])
def test_only_seconds_without_a_cpu_are_queued(others, tmp_path):
    """A process that sleeps waits for no CPU. One that shares a CPU with two others waits most of the time."""
    code = SPINS if others else "import time; print('begins', flush=True); time.sleep(60)"
    environment = {**os.environ, "CPU": str(min(os.sched_getaffinity(0)))}
    pipes = {"stdout": subprocess.PIPE, "text": True, "env": environment}
    started = [subprocess.Popen([sys.executable, "-S", "-c", code], **pipes) for _ in range(1 + others)]
    try:
        for process in started:
            assert process.stdout.readline() == "begins\n"
        watch = Watch(Resources(), lambda: [psutil.Process(started[0].pid)], str(tmp_path))
        watch.queued()
        time.sleep(1)
        waited = watch.queued()
        assert waited > 0.2 if others else waited < 0.05
    finally:
        for process in started:
            process.kill()
            process.communicate()
