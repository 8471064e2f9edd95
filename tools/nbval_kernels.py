"""A pytest plugin: how nbval gets its kernels. Each is forked from a process that has imported what lessons need.

nbval runs each notebook in a kernel of its own, as ever, with the variables and the folder that it asks for: only the
imports are done before. Kernels are reached by sockets in files, since two that start at once can take the same port.
A test that runs a notebook gets its kernel by `kernel_manager`, too.
"""

import itertools
import os
import sys
import tempfile
from typing import Any

import nbval.kernel
from jupyter_client.manager import KernelManager

from utils.grading.run.provisioner import ForkedKernelManager, kernel_fork_server

_folder = tempfile.TemporaryDirectory(prefix="kernels-")
_numbers = itertools.count()


def kernel_manager(**options) -> KernelManager:
    """Who starts the next kernel. `options` are Jupyter's own."""
    number = next(_numbers)
    place: dict[str, Any] = {
        "transport": "ipc",
        "ip": f"{_folder.name}/{number}",
        "connection_file": f"{_folder.name}/{number}.json",
    }
    if not sys.platform.startswith("linux"):
        return KernelManager(**place, **options)
    warm = kernel_fork_server(os.environ, purpose="plain", sandboxed=False)
    return ForkedKernelManager(warm, {"apart": False, "arguments": ["-f", place["connection_file"]]}, **place)


if sys.platform != "win32":
    nbval.kernel.KernelManager = kernel_manager
