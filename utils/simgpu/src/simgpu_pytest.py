"""`pytest --simgpu 4`: tests that need GPUs run on simulated ones, which `cuda` means for all of them.

Loaded by every pytest that finds simgpu installed, so it imports neither PyTorch nor simgpu before the option is given.
"""

import os


def pytest_addoption(parser):
    parser.getgroup("simgpu").addoption(
        "--simgpu",
        metavar="GPUS",
        help="run with simulated GPUs in place of CUDA's: 4, or what the variable SIMGPU takes (4,gpu=H100,nodes=2)",
    )


def pytest_load_initial_conftests(early_config):
    """Before any test's module, which may ask for `torch.cuda.device_count()` as it is imported."""
    asked = early_config.known_args_namespace.simgpu
    if asked is None:
        return
    already = os.environ.get("SIMGPU"), os.environ.get("SIMGPU_AS_CUDA")
    os.environ |= {"SIMGPU": asked, "SIMGPU_AS_CUDA": "1"}  # for processes that tests start, and pytest-xdist's workers
    import torch  # noqa: F401 - which enables what SIMGPU says, where it has not been imported yet

    import simgpu
    from simgpu.environment import enable_as_asked

    if not simgpu.is_enabled() or already != (asked, "1"):
        enable_as_asked(os.environ)


def pytest_report_header(config):
    if config.getoption("simgpu") is None:
        return None
    import simgpu

    return f"simgpu: {simgpu.describe()}, in place of CUDA"
