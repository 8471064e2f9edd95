"""What holds for all tests. What test files share is in support/."""

import os
import sys

# One thread a process: the tests run in as many processes as there are cores, and start kernels of their own.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest


def pytest_configure(config):
    """The marker of pytest-xdist is known where that is turned off, too (-p no:xdist)."""
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker runs")


@pytest.hookimpl(optionalhook=True)  # tests run without pytest-xdist, too
def pytest_xdist_auto_num_workers():
    """`-n auto`: one more than there are cores. Many tests wait for processes of their own, and some for a limit."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """pytest-xdist 3.8 writes a test's group where pytest 9.2 does not look: groups had no effect."""
    for item in items:
        if "@" in getattr(item, "_nodeid", "") and hasattr(item, "_id"):
            item._id = type(item._id).parse(item._nodeid)


@pytest.fixture(autouse=True)
def simulated_devices(monkeypatch):
    """Tests give the same result on every machine, also on one with GPUs, and whichever test ran before."""
    monkeypatch.setenv("COURSE_DEVICES", "simulated")
    simgpu = sys.modules.get("simgpu")
    if simgpu is not None and simgpu.is_enabled():
        simgpu.enable(count=1)  # the same arguments again would leave the machine as it is, with its log and its clock
        simgpu.enable(count=2)
