"""PyTorch's own tests of torch.distributed, as the wheel has them and unmodified, on simulated GPUs. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.pytorch_distributed_test TABLE.md [WORD ...]

The tests are `DistributedTest`, for the backend nccl and 2 ranks, or those with one of the words in their name. Each
has processes of its own and 60 seconds. TABLE.md tells of each whether it passed, was skipped (by the test itself),
was refused (an error that simgpu raises on purpose, with its line) or failed, and the last line of what it said.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

SECONDS = 60
SETTINGS = {
    "BACKEND": "nccl",
    "WORLD_SIZE": "2",
    "SIMGPU": "2",
    "SIMGPU_AS_CUDA": "1",
    "OMP_NUM_THREADS": "1",
    "GLOO_SOCKET_IFNAME": "lo",
    "MASTER_ADDR": "127.0.0.1",
    "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(SECONDS),
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # this repository's simgpu, not an installed one
}
# The end of a traceback whose last frame is a `raise` of simgpu's.
REFUSED = re.compile(r'File "[^"]*/simgpu/[^"]*", line \d+, in \w+\n +raise [^\n]*\n(?: +[~^]+\n)?(\S[^\n]*)')


class Outcomes(unittest.TestResult):
    """What became of the last test: its outcome and what it said."""

    said = ("passed", "")

    def addSkip(self, test, reason):
        self.said = "skipped", reason

    def addError(self, test, error):
        text = str(error[1])
        if (refused := REFUSED.findall(text)) and "RanksMissing" not in refused[-1]:
            self.said = "refused", refused[-1]
        else:
            lines = [line for line in text.splitlines() if re.match(r"(\w+\.)*\w+(Error|Exception|Case|Came)\b", line)]
            self.said = "failed", (lines or text.strip().splitlines())[-1]

    addFailure = addError


def names(kind: type, words: list[str]) -> list[str]:
    found = unittest.TestLoader().getTestCaseNames(kind)
    return [name for name in found if not words or any(word in name for word in words)]


def main(page: str, *words: str) -> None:
    os.environ.update(SETTINGS, TEMP_DIR=tempfile.mkdtemp())
    import torch

    from simgpu.environment import enable_as_asked

    enable_as_asked(os.environ)
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test

    common_distributed.TIMEOUT_OVERRIDE.clear()

    class OnSimulatedGpus(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            # Forked, because the ranks then need not import all again.
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    rows, counts = [], Counter()
    for name in names(OnSimulatedGpus, list(words)):
        outcomes, begin = Outcomes(), time.monotonic()
        OnSimulatedGpus(name).run(outcomes)
        outcome, line = outcomes.said
        counts[outcome] += 1
        took = time.monotonic() - begin
        rows.append(f"| {name.removeprefix('test_')} | {outcome} | {took:.0f} | {line.replace('|', '/')[:300]} |")
        print(rows[-1], flush=True)
    told = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    head = f"PyTorch {torch.__version__}, 2 ranks: {told}.\n\n| test | outcome | seconds | what it said |\n"
    Path(page).write_text(f"{head}| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n")
    print(told)


if __name__ == "__main__":
    main(*sys.argv[1:])
