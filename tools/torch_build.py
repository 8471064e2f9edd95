"""Which build of PyTorch to set up: the CPU's, some 200 MB to fetch, or the usual one, 3 GB of them for NVIDIA's GPUs.

The environment variable COURSE_TORCH overrides the choice:

    COURSE_TORCH=cpu     the CPU's build
    COURSE_TORCH=cuda    the usual one
    COURSE_TORCH=keep    the PyTorch that is there, and nothing else

COURSE_TORCH_INDEX names another index that carries the CPU's build, such as a mirror nearer by.
"""

from __future__ import annotations

import ctypes
import os
import platform
import re
import shutil
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import NamedTuple

VARIABLE, INDEX_VARIABLE = "COURSE_TORCH", "COURSE_TORCH_INDEX"
WISHES = ("", "cpu", "cuda", "keep")
# PyPI has the usual build only: https://pytorch.org/get-started/locally
INDEX = "https://download.pytorch.org/whl/cpu"
CPU = "+cpu"  # how the versions of that build end
SECONDS = 6  # to answer in, for each of the two pages


class Choice(NamedTuple):
    """`index` has the CPU's build; None where the usual one is taken."""

    index: str | None
    why: str


class Unanswered(Exception):
    """The index does not have what is asked for, or says nothing. In words."""


def wish() -> str:
    """What COURSE_TORCH asks for. Raises ValueError for a word that it does not know."""
    word = os.environ.get(VARIABLE, "").strip().lower()
    if word not in WISHES:
        raise ValueError(f"{VARIABLE}={word} is none of {', '.join(WISHES[1:])}")
    return word


def contradicts(wanted: str, version: str | None) -> bool:
    """Whether a PyTorch of this version is not the build that is asked for."""
    if not version or wanted not in ("cpu", "cuda") or not on_linux():
        return False
    return version.endswith(CPU) != (wanted == "cpu")


def choose(wanted: str, versions: dict[str, str]) -> Choice:
    """Where to fetch these versions of torch and torchvision from, and why.

    Raises Unanswered where the CPU's build is asked for and cannot be had.
    """
    if not on_linux():
        return Choice(None, "outside of Linux it has no CUDA libraries in it")
    if wanted == "cuda":
        return Choice(None, f"{VARIABLE}=cuda asks for it")
    driver = nvidia_driver()
    if driver and wanted != "cpu":
        return Choice(None, f"an NVIDIA driver is here: {driver}")
    index = os.environ.get(INDEX_VARIABLE, "").strip().rstrip("/") or INDEX
    try:
        for name, version in versions.items():
            find(index, name, version)
    except Unanswered as reason:
        if wanted == "cpu":
            raise
        return Choice(None, f"there is no NVIDIA driver, but {reason}")
    return Choice(index, f"{VARIABLE}=cpu asks for it" if wanted == "cpu" else "there is no NVIDIA driver here")


def on_linux() -> bool:
    return sys.platform.startswith("linux")


def nvidia_driver() -> str:
    """What shows that there is an NVIDIA driver, or nothing."""
    if os.path.exists("/proc/driver/nvidia/version"):
        return "/proc/driver/nvidia"
    try:
        ctypes.CDLL("libcuda.so.1")  # the driver's own part of CUDA; under WSL all that there is of it
    except OSError:
        return shutil.which("nvidia-smi") or ""
    return "libcuda.so.1"


def find(index: str, name: str, version: str) -> None:
    """Return if the index has this version for this Python and processor. Raises Unanswered if it does not say so."""
    host = urllib.parse.urlsplit(index).hostname or index
    page = _within(SECONDS, lambda: _read(f"{index}/{name}/"), host)
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    wheel = rf"{name}-{re.escape(version)}(?:\+|%2B)cpu-{tag}-{tag}-\w*linux\w*_{re.escape(platform.machine())}\.whl"
    if not re.search(wheel, page, re.IGNORECASE):
        python = f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.machine()}"
        raise Unanswered(f"{host} has no CPU build of {name} {version} for {python}")


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return answer.read().decode("utf-8", "replace")


def _within(seconds: float, read: Callable[[], str], host: str) -> str:
    """What `read` returns, if in time: looking a name up, or an answer in drops, knows no time-out of its own."""
    answers: list[str | Exception] = []

    def work() -> None:
        try:
            answers.append(read())
        except Exception as error:
            answers.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    answer = answers[0] if answers else TimeoutError()
    if isinstance(answer, str):
        return answer
    raise Unanswered(f"{host} {_in_words(answer)}") from None


def _in_words(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"answers {error.code} {error.reason}"
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"does not answer within {SECONDS} seconds"
    return f"cannot be reached ({getattr(reason, 'strerror', None) or reason})"
