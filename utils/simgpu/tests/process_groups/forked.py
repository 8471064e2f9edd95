"""Ranks that are forked from one process, which has loaded PyTorch: to load it in each takes longer than all checks.

    python forked.py 4 SCRIPT ARGUMENTS...

Each finds in its environment what torchrun gives: RANK, LOCAL_RANK, WORLD_SIZE; and in RENDEZVOUS a file to meet by.
test_backend.py's checks under torchrun itself, and test_standalone.py, show that a launcher makes no difference.
"""

import contextlib
import importlib
import os
import runpy
import signal
import sys
import tempfile
from pathlib import Path

HEAVY = (
    *("torch", "torch._dynamo", "torch.distributed.checkpoint", "torch.distributed.device_mesh"),
    *("torch.distributed.fsdp", "torch.distributed.pipelining", "torch.distributed.tensor.parallel"),
    *("torch.distributed.algorithms.join", "torch.distributed.algorithms.ddp_comm_hooks", "simgpu"),
)


def main(count: int, script: str, arguments: list[str]) -> int:
    """How many ranks have failed."""
    for name in HEAVY:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"WORLD_SIZE": str(count), "RENDEZVOUS": (Path(folder) / "meet").as_uri()}
        children = [os.fork() or _be_a_rank(rank, script, arguments) for rank in range(count)]
        failed = 0
        for _ in range(count):
            _, status = os.wait()
            if status and not failed:  # the others wait for it
                for child in children:
                    _end(child)
            failed += status != 0
    return failed


def _be_a_rank(rank: int, script: str, arguments: list[str]) -> int:
    """Never returns."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    sys.argv = [script, *arguments]
    sys.path[0] = str(Path(script).parent)
    code = 1
    try:
        runpy.run_path(script, run_name="__main__")
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))
