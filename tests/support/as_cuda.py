"""A pytest plugin: nbval's kernels find two CUDA devices and NVML, by the stand-ins of tests/stand_ins.

    pytest --nbval-lax --nbval-current-env -p tests.support.as_cuda notebooks/03_train_across_devices.ipynb

Notebooks then take the way that they take on a machine with two GPUs. `make nbval-cuda` runs all of them so.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from utils.common.files import python_path

ROOT = Path(__file__).resolve().parents[2]
START = "from tests.stand_ins import cuda as stand_in_for_cuda\nstand_in_for_cuda.start()\n"
_folder = tempfile.TemporaryDirectory(prefix="as-cuda-")


def pytest_configure(config):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or not sys.platform.startswith("linux"):
        raise pytest.UsageError("the stand-in for NVML needs Linux and a C compiler")
    folder = Path(_folder.name)
    library, source = folder / "libnvidia-ml.so.1", ROOT / "tests" / "stand_ins" / "nvml.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    startup = folder / "ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "00-cuda.py").write_text(START)
    os.environ |= {
        "LD_LIBRARY_PATH": str(folder),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONPATH": python_path(),
        "STAND_IN_GPUS": "2",
    }
    os.environ.pop("COURSE_DEVICES", None)  # the lessons' own choice: real GPUs where there are enough
