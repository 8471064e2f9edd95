"""A stand-in for two CUDA devices, so that notebooks can run as on a machine with real GPUs where there are none.

What is real: PyTorch, the notebooks, and all of our code for real GPUs: it is told `cuda`, and asks torch.cuda,
torch.profiler and NVML. What stands in: simulated GPUs of a paced clock answer to `cuda` (simgpu.as_cuda); the
profiler records the host, and the GPUs' part of its trace is written from the simulated GPUs' log, in the profiler's
own format; NVML's library is tests/stand_ins/nvml.c. Their product's name says that they are simulated, wherever a
notebook says what it was measured on. Nothing here tells what a real GPU would do or how long it would take.

`start()` puts it in place; tests/support/as_cuda.py has kernels call it before their first cell. A notebook that calls
`simgpu.enable` itself, or asks for more devices than two, has simulated GPUs under their own names from there on,
because there is one machine of them; a cell's `devices(2)` then makes it again, as two CUDA devices.
"""

import json
import os
from bisect import bisect_right
from contextlib import ExitStack
from weakref import ref

import torch

import simgpu
from simgpu.tensor import SimStorage
from utils.observe import devices

BEGAN = "stand-in for CUDA: the profiler began"
GPUS = 2
ON_GPU = {"kernel": "kernel", "comm": "kernel"}  # other kinds are copies
NAMES = {"h2d": "Memcpy HtoD (Pageable -> Device)", "d2h": "Memcpy DtoH (Device -> Pageable)", "d2d": "Memcpy PtoP"}
FIRST_NUMBER = 1 << 30  # of correlations: higher than those of the host's own events

_answers = False  # whether something answers to `cuda` now
_as_cuda = ExitStack()
_devices = devices.devices
_simulate = simgpu.enable
_weak_storage = simgpu.torch_private.weak_storage


def start() -> None:
    """`cuda` means simulated GPUs from here on. COURSE_STAND_IN_COMPUTE=0: their tensors have shapes only."""
    torch.cuda.device_count = lambda: GPUS if _answers else 0
    torch.profiler.profile = Profile
    devices.devices = _devices_again
    simgpu.enable = _enable
    # A simulated GPU's storage is an object of Python's, and one of shapes only has no address.
    simgpu.torch_private.weak_storage = _WeakStorage
    SimStorage.data_ptr = SimStorage.__hash__
    _begin()


def _begin() -> None:
    global _answers
    _simulate(count=GPUS, clock="paced", compute=os.environ.get("COURSE_STAND_IN_COMPUTE") != "0")
    _as_cuda.enter_context(simgpu.as_cuda())
    _answers = True
    uuids = [str(torch.cuda.get_device_properties(index).uuid) for index in range(GPUS)]
    os.environ["STAND_IN_UUIDS"] = ",".join(uuids)  # NVML's stand-in knows the GPUs by them


def _enable(*args, **options):
    global _answers
    _as_cuda.close()
    _answers = False
    return _simulate(*args, **options)


def _devices_again(count=GPUS, *, quiet=False, **options):
    # A check asks quietly, and takes what the notebook has.
    if not _answers and count <= GPUS and not quiet:
        _begin()
    return _devices(count, quiet=quiet, **options)


class _WeakStorage:
    """torch.multiprocessing's weak reference to a storage, for those of simulated GPUs."""

    def __new__(cls, storage):
        return super().__new__(cls) if isinstance(storage, SimStorage) else _weak_storage(storage)

    def __init__(self, storage: SimStorage):
        self._counted = ref(storage._counted)

    def expired(self) -> bool:
        return self._counted() is None


class Profile(torch.profiler.profile):
    """torch.profiler.profile on the host; what the GPUs did is taken from the simulated GPUs' log."""

    def __init__(self, *, activities=None, **options):
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **options)

    def __enter__(self):
        entered = super().__enter__()
        self._recording = simgpu.recording()
        self._recording.__enter__()
        with torch.profiler.record_function(BEGAN):
            self._began = simgpu.now()
        return entered

    def __exit__(self, *error):
        self._log = simgpu.log(since=self._began)
        self._recording.__exit__(*error)
        return super().__exit__(*error)

    def export_chrome_trace(self, path):
        super().export_chrome_trace(path)
        with open(path) as file:
            trace = json.load(file)
        began = next(event["ts"] for event in trace["traceEvents"] if event.get("name") == BEGAN)
        host = _Host(trace["traceEvents"])
        for number, record in enumerate(self._log, FIRST_NUMBER):
            trace["traceEvents"] += _pair(record, number, lambda at: began + (at - self._began) * 1e6, host)
        with open(path, "w") as file:
            json.dump(trace, file)


class _Host:
    """The host's operators, to be asked on which thread something was launched."""

    def __init__(self, events):
        self._operators = sorted((e for e in events if e.get("cat") == "cpu_op"), key=lambda e: e["ts"])
        self._starts = [event["ts"] for event in self._operators]

    def thread(self, at):
        """(process, thread) of the last operator that had begun then."""
        if not self._operators:
            return {"pid": 0, "tid": 0}
        number = max(bisect_right(self._starts, at) - 1, 0)
        return {key: self._operators[number][key] for key in ("pid", "tid")}


def _pair(record, number, microseconds, host):
    """A launch on the host and what it launched, as the profiler writes them."""
    launched = microseconds(record.launched)
    call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": launched, "dur": 0}
    args = {"correlation": number, "device": record.device, "stream": record.stream, "bytes": record.bytes}
    if record.kind == "d2d":
        args |= {"fromDevice": record.device, "toDevice": record.other}
    start, end = microseconds(record.start), microseconds(record.end)
    work = {"ph": "X", "ts": start, "dur": end - start, "pid": record.device, "tid": record.stream, "args": args}
    work |= {"cat": ON_GPU.get(record.kind, "gpu_memcpy"), "name": NAMES.get(record.kind, record.name)}
    return call | host.thread(launched) | {"args": {"correlation": number}}, work
