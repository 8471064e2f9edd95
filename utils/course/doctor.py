"""`course doctor`: what works on this machine, tried and not guessed, and what to do about the rest."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import psutil

from simgpu import torch_private
from utils.common.files import ROOT
from utils.course.colab import lacking
from utils.grading.run import sandbox

LITTLE_MEMORY = 4  # GiB. Lesson 06 with its lab is the largest, and takes less
TESTS_NEED = ("chromium", "cc")  # programs; the rest comes with them


class Sick(Exception):
    """What does not work, and what to do about it."""


class Diagnosis(NamedTuple):
    """`works` is None where something optional is lacking."""

    subject: str
    works: bool | None
    words: str


def findings() -> Iterator[Diagnosis]:
    """What was tried, one after the other."""
    for subject, needed, look in CHECKS:
        try:
            yield Diagnosis(subject, True, look())
        except Sick as sick:
            yield Diagnosis(subject, False if needed else None, str(sick))
        except Exception as error:  # a doctor that dies is of no help
            yield Diagnosis(subject, False if needed else None, f"{type(error).__name__}: {error}".splitlines()[0])


def _packages() -> str:
    missing, too_old = lacking()
    for name, wanted in {**missing, **too_old}.items():
        raise Sick(f"{name} {wanted if name in too_old else wanted + ' is missing'}. Run make lab")
    return f"Python {platform.python_version()}, the course {version('model-parallel-course')}"


def _pytorch() -> str:
    import torch
    import torchvision  # noqa: F401  (it fails to load beside a PyTorch that it was not built for)

    return f"{torch.__version__}, {f'for CUDA {torch.version.cuda}' if torch.version.cuda else 'the CPU build'}"


def _simulated() -> str:
    import torch

    import simgpu

    simgpu.enable(count=2)
    x = torch.ones(3, device="simgpu:0").to("simgpu:1")
    if (x + x).cpu().tolist() != [2.0] * 3:
        raise Sick("they compute wrong numbers here: please report it with the lines above")
    return "two made, a tensor copied from one to the other, and added"


def _real() -> str:
    import torch

    if count := torch.cuda.device_count():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(count))
        return f"{names}; devices(2) takes {'them' if count > 1 else 'simulated ones: it takes two'}"
    if not (shutil.which("nvidia-smi") or os.path.exists("/proc/driver/nvidia")):
        raise Sick("none, and none is needed")
    if not torch.version.cuda:
        raise Sick("there is a driver, and PyTorch is the CPU build. COURSE_TORCH=cuda make lab takes the other")
    raise Sick("there is a driver, and PyTorch sees no GPU: is the driver too old? nvidia-smi says more")


def _processes() -> str:
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_gloo_available()):
        raise Sick("this PyTorch has no gloo: `ranks` does not work, the lessons up to 10 do")
    if not torch_private.has_python_backends():
        raise Sick("`ranks` needs PyTorch 2.15: lessons 00 to 09 work without it, not the ranks of 10 to 13")
    return "torch.distributed with gloo"


def _widgets() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in ("ipywidgets", "anywidget", "ipykernel"))


def _jupyterlab() -> str:
    return _version("jupyterlab")


def _grading() -> str:
    try:
        sandbox.require_sandbox()
    except sandbox.NoSandbox as reason:
        raise Sick(f"{reason}. Learning needs none") from None
    return "a sandbox was made and Python started in it"


def _tests() -> str:
    if not (ROOT / "tests" / "unit").is_dir():
        raise Sick("this copy has none; it is for learning")
    for name in TESTS_NEED:
        if not shutil.which(name):
            raise Sick(f"the program {name} is missing. make test installs it where it may, or says how")
    return f"make test runs them (pytest {_version('pytest', 'make setup-test')})"


def _machine() -> str:
    memory, free = psutil.virtual_memory().total / 2**30, shutil.disk_usage(ROOT).free / 1e9
    if memory < LITTLE_MEMORY:
        raise Sick(f"{memory:.0f} GiB of memory are little: keep one notebook open at a time (Kernel, Shut Down All)")
    return f"{os.cpu_count()} cores, {memory:.0f} GiB of memory, {free:.0f} GB free on the disk"


def _folder() -> str:
    if not os.access(ROOT / "notebooks", os.W_OK):
        raise Sick(
            f"{ROOT} is read-only: notebooks run, and cannot be saved there. Copy the course to a folder of yours"
        )
    return "answers can be saved in it"


def _version(name: str, set_up: str = "make lab") -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        raise Sick(f"{name} is missing. Run {set_up}") from None


# The subject, whether lessons and labs need it, and how it is tried.
CHECKS: list[tuple[str, bool, Callable[[], str]]] = [
    ("packages", True, _packages),
    ("PyTorch", True, _pytorch),
    ("simulated GPUs", True, _simulated),
    ("real GPUs", False, _real),
    ("several processes", False, _processes),
    ("widgets", False, _widgets),
    ("JupyterLab", False, _jupyterlab),
    ("this folder", False, _folder),
    ("this machine", False, _machine),
    ("grading", False, _grading),
    ("tests", False, _tests),
]
WORDS = {True: "yes", False: "NO", None: "-"}


def report(found: list[Diagnosis]) -> str:
    """The findings as text."""
    width = max(len(finding.subject) for finding in found)
    return "\n".join(f"{WORDS[works]:<4}{subject:<{width}}  {words}" for subject, works, words in found)


def verdict(found: list[Diagnosis]) -> str:
    """The last line."""
    ill = [finding.subject for finding in found if finding.works is False]
    return f"Mend first: {', '.join(ill)}." if ill else f"Lessons and labs work here ({sys.executable})."
