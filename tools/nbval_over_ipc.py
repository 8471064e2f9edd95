"""A pytest plugin: nbval reaches its kernels by sockets in files. Two that start at once can take the same port."""

import itertools
import sys
import tempfile

import nbval.kernel
from jupyter_client.manager import KernelManager

_folder = tempfile.TemporaryDirectory(prefix="kernels-")
_numbers = itertools.count()


def _manager(**options) -> KernelManager:
    return KernelManager(transport="ipc", ip=f"{_folder.name}/{next(_numbers)}", **options)


if sys.platform != "win32":
    nbval.kernel.KernelManager = _manager
