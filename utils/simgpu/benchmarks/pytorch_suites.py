"""Tests of PyTorch's repository, which its wheel has not, on simulated GPUs. Run it by hand, with a checkout:

    .venv/bin/python -m utils.simgpu.benchmarks.pytorch_suites PYTORCH/test TABLE.md [WORD ...]

It runs those files of OF_DEVICES and OF_RANKS that are there, or those with one of the words in their path: suites of
devices as PyTorch's own for a PrivateUse1 device, and those of ranks as code for CUDA. A test has so many seconds
(DEVICE_SECONDS, RANK_SECONDS), and a file FILE_SECONDS. Where a test ends the process, the file goes on after it.
TABLE.md tells of each file how many tests passed, were skipped (by the test itself), were refused (an error that simgpu
raises on purpose), failed, ended their process, or were not reached, and the first line of what each that failed said.

In this process it is a plugin of pytest: what a test said is written to a file at once.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from pathlib import Path

import pytest

from .pytorch_distributed_test import REFUSED

DEVICE_SECONDS, RANK_SECONDS, FILE_SECONDS, ROUNDS = 60, 220, 1800, 12
ROOT = Path(__file__).resolve().parents[3]
OF_DEVICES = ("view_ops", "indexing", "type_promotion", "torch", "shape_ops", "scatter_gather_ops", "nn", "autograd")
OF_DEVICES = (*OF_DEVICES, "optim", "foreach", "serialization", "ops")
OF_RANKS = ("_composable/fsdp", "tensor", "_tensor", "pipelining")  # in distributed/; DTensor's folder was renamed
SHARED = {"OMP_NUM_THREADS": "1", "SIMGPU": "2", "PYTHONPATH": f"{ROOT}:{ROOT / 'utils/simgpu/src'}"}
DEVICES = SHARED | {"PYTORCH_TESTING_DEVICE_ONLY_FOR": "privateuse1", "SUITE_LIMIT": str(DEVICE_SECONDS)}
RANKS = SHARED | {
    "SIMGPU": "8",
    "SIMGPU_AS_CUDA": "1",
    "SUITE_LIMIT": str(RANK_SECONDS),
    "SUITE_RANKS": "1",
    "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(RANK_SECONDS - 20),
    "GLOO_SOCKET_IFNAME": "lo",
    "MASTER_ADDR": "127.0.0.1",
}
COLUMNS = ("passed", "refused", "skipped", "failed", "ended its process", "not reached")


# --- a plugin of pytest, in the process that runs a file -------------------------------------------------------------


class TookTooLong(BaseException):
    """A test has had its seconds."""


def noted() -> list[dict]:
    path = Path(os.environ["SUITE_OUT"])
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def note(**what: str) -> None:
    with open(os.environ["SUITE_OUT"], "a") as file:
        print(json.dumps(what), file=file, flush=True)


def pytest_configure() -> None:
    import simgpu.environment  # noqa: F401  it makes the simulated GPUs that SIMGPU asks for

    if os.environ.get("SUITE_RANKS"):
        start_ranks_as_forks()
        let_dtensors_tests_take_simccl()


def start_ranks_as_forks() -> None:
    """As PyTorch's tests do on Linux without CUDA; a spawned process would import PyTorch for seconds."""
    import torch.multiprocessing
    from torch.testing._internal import common_distributed

    def _spawn_processes(self) -> None:
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common_distributed.MultiProcessTestCase._spawn_processes = _spawn_processes
    common_distributed.TIMEOUT_OVERRIDE.clear()


def let_dtensors_tests_take_simccl() -> None:
    """Their base class has a list of the backends that it knows."""
    import torch.distributed as dist
    from torch.testing._internal.distributed._tensor import common_dtensor

    def backend(self) -> str:
        # The CPU is the device of a test that wants more GPUs than there are.
        own = dist.get_default_backend_for_device(self.device_type)
        return "gloo" if self.device_type == "cpu" else f"cpu:gloo,{self.device_type}:{own}"

    common_dtensor.ACCELERATOR_DIST_BACKENDS.append("simccl")
    common_dtensor.DTensorTestBase.backend = property(backend)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    seen = {line["test"] for line in noted()}
    devices_only = "SUITE_RANKS" not in os.environ
    items[:] = [
        item
        for item in items
        if item.nodeid not in seen and (not devices_only or any(k in item.nodeid for k in ("PRIVATEUSE1", "SIMGPU")))
    ]
    if not seen:
        note(test="", what="collected", said=str(len(items)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item):
    def stop(*_):
        raise TookTooLong(f"more than {os.environ['SUITE_LIMIT']} s")

    note(test=item.nodeid, what="begun")
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(int(os.environ["SUITE_LIMIT"]))
    try:
        return (yield)
    finally:
        signal.alarm(0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo):
    report = yield
    if call.when == "call" or not report.passed:
        said = ""
        if report.failed and call.excinfo:
            error = call.excinfo.value
            lines = f"{type(error).__name__}: {str(error).strip()}".splitlines()
            of_a_rank = [line for line in lines[1:] if re.match(r"(\w+\.)*\w*(Error|Missing|Mismatch)\b", line)]
            said = (of_a_rank or lines)[0][:200]
        note(test=item.nodeid, what="refused" if report.failed and is_refused(call) else report.outcome, said=said)
    return report


def is_refused(call: pytest.CallInfo) -> bool:
    """Whether the error, or one that it came of, was raised by simgpu in so many words."""
    error = call.excinfo.value if call.excinfo else None
    if of_a_rank := REFUSED.findall(str(error)):
        return not of_a_rank[-1].split(":")[0].endswith(("RanksMissing", "Mismatch"))
    while error is not None:
        frames = traceback.extract_tb(error.__traceback__)
        if frames and "/simgpu/" in frames[-1].filename and (frames[-1].line or "").startswith("raise "):
            return type(error).__name__ not in ("RanksMissing", "Mismatch")
        error = error.__cause__ or error.__context__
    return False


# --- the process that starts these -----------------------------------------------------------------------------------


def main(tests: Path, table: Path, words: list[str]) -> None:
    files = [(tests / f"test_{name}.py", DEVICES) for name in OF_DEVICES]
    files += [(path, RANKS) for place in OF_RANKS for path in sorted(tests.glob(f"distributed/{place}/test_*.py"))]
    files = [(p, how) for p, how in files if p.exists() and (not words or any(word in str(p) for word in words))]
    if not files:
        raise SystemExit(f"{tests} has none of these files: give the folder `test` of a checkout of PyTorch")
    rows, failures = [], []
    for path, how in files:
        told = outcomes_of(path, how)
        name = str(path.relative_to(tests))
        counts = Counter(what for what, _ in told.values())
        rows.append(f"| `{name}` | {' | '.join(str(counts[column]) for column in COLUMNS)} |")
        failures += [
            f"* `{name}` {test.partition('::')[2]}: {said or what}"
            for test, (what, said) in told.items()
            if what in ("failed", "ended its process")
        ]
        head = f"| file | {' | '.join(COLUMNS)} |\n|{' --- |' * (1 + len(COLUMNS))}"
        table.write_text("\n".join([head, *rows, "", *failures, ""]), encoding="utf-8")
        print(rows[-1], flush=True)


def outcomes_of(path: Path, how: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Of each test of a file: what became of it, and the first line of what it said."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "told"
        environment = os.environ | how | {"SUITE_OUT": str(out)}
        options = ["-p", __spec__.name, "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--noconftest", "--tb=no"]
        command = [sys.executable, "-m", "pytest", *options, "-c", os.devnull, "--rootdir", path.parent, path.name]
        for _ in range(ROUNDS):
            try:
                silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
                ended = subprocess.run(
                    command, cwd=path.parent, env=environment, timeout=FILE_SECONDS, check=False, **silent
                )
            except subprocess.TimeoutExpired:
                break
            if 0 <= ended.returncode < 100:  # pytest's own
                break
        lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    found: dict[str, tuple[str, str]] = {}
    for line in lines:
        if line["what"] == "begun":
            found.setdefault(line["test"], ("ended its process", ""))
        elif line["test"] and found[line["test"]][0] not in ("failed", "refused"):  # and its teardown came after
            found[line["test"]] = line["what"], line["said"]
    collected = next((int(line["said"]) for line in lines if line["what"] == "collected"), 0)
    return found | {f"{n}": ("not reached", "") for n in range(max(0, collected - len(found)))}


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]), sys.argv[3:])
