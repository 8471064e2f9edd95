"""What holds for all tests of simgpu. They need PyTorch, NumPy and pytest, and nothing of the course."""

import os

# One thread a process: the tests run in as many processes as there are cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest

import simgpu


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes seconds")
    config.addinivalue_line("markers", "thorough: claims once more, at more cost, what another test claims")
    config.addinivalue_line("markers", "xdist_group(name): tests that one worker of pytest-xdist runs")


@pytest.fixture(autouse=True)
def fresh_machine():
    """Each test begins with the machine that there is by default, whichever test ran before."""
    if simgpu.is_enabled():
        simgpu.enable(count=1)  # the same arguments again would leave the machine as it is, with its log and its clock
        simgpu.enable(count=2)
