"""CUDA graphs: what a part of a program gives to a GPU, noted once and given again by one launch.

A capture notes two things in order: the kernels and copies that are launched, which it does not start, and the CPU's
operators that compute their values, with the tensors that these were given and have made. A replay costs the host one
launch. It starts the kernels and copies one after another on the current stream, each for its own time, and calls the
operators again on the same tensors: what a result was written to is written to again.

As on CUDA a capture itself changes nothing. The values have to be computed once, because operators decide about shapes
and strides as they compute; afterwards what was there before has its old values again, generators are where they were,
and what was made holds garbage (NaN, and 0 for whole numbers) until the first replay.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import ExitStack, nullcontext
from functools import wraps
from itertools import count
from typing import Any, ClassVar, NamedTuple
from unittest import mock

import torch

from . import ordering, origin, random_numbers, refusals, torch_private
from .dispatch import dispatch, operator_of
from .hardware import DEVICE_TYPE, Gpu, machine
from .memory import Storage
from .moves import MAKES_NO_KERNEL
from .operators import MAKES_ROOM
from .random_numbers import Generator
from .streams import Stream
from .tensor import SimTensor, tensors_among

MODES = ("global", "thread_local", "relaxed")
OF_COLLECTIVES = {"c10d", "_c10d_functional", "_c10d_functional_autograd", "fsdp"}  # namespaces of operators
UNSAID = ("running_mean", "running_var")  # arguments that batch norm writes to, whatever its schema says
STATES = ("manual_seed", "get_state", "set_state")  # of a generator
_get_state = Generator.get_state  # whatever the name stands for while something is captured
NAN = 0xFF  # a number of any kind of floats whose bytes are all this is none
_handles = count(1)


# --- what a graph is made of ---------------------------------------------------------------------------------------


class _Kernel(NamedTuple):
    """A kernel, as `Machine.launch` was told of it."""

    seconds: float
    name: str
    bytes: int
    flops: int
    origin: origin.Origin

    def start(self, gpu: Gpu, launched: float) -> None:
        replayed = launched, self.origin
        machine.launch(gpu, self.seconds, self.name, self.bytes, self.flops, replayed=replayed)


class _Copy(NamedTuple):
    """A copy between the GPU and pinned memory of the host, which does not wait for it."""

    bytes: int
    to_host: bool
    origin: origin.Origin

    def start(self, gpu: Gpu, launched: float) -> None:
        replayed = launched, self.origin
        machine.copy_with_host(gpu, self.bytes, to_host=self.to_host, pinned=True, wait=False, replayed=replayed)


class _Step(NamedTuple):
    """An operator of the CPU's that computes values, with what it was given."""

    func: Callable
    args: tuple
    kwargs: dict
    made: list[tuple[int, torch.Tensor]]  # those of its results that are new: the place among them, and the tensor
    generator: Generator | None  # what it draws from

    def run(self) -> None:
        """Compute again, into the tensors that were made at first."""
        if self.generator is None:
            out = self.func(*self.args, **self.kwargs)
        else:
            with self.generator.in_place_of_the_cpus():
                out = self.func(*self.args, **self.kwargs)
        if self.made:
            results = [*tensors_among((out,))]
            for place, kept in self.made:
                kept.copy_(results[place])


def _address(tensor: torch.Tensor) -> int:
    """Of the memory that holds a tensor of the CPU's; 0 where there is none."""
    return tensor.untyped_storage().data_ptr()


# --- noting it -----------------------------------------------------------------------------------------------------


class _Recorder(torch_private.DispatchMode):
    """Within an operator on simulated tensors: sees the CPU's operators that compute its values."""

    def __init__(self, capture: _Capture):
        super().__init__()
        self._capture = capture

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        device = kwargs.get("device")
        is_simulated = isinstance(device, torch.device) and device.type == DEVICE_TYPE
        if is_simulated or any(type(tensor) is SimTensor for tensor in tensors_among((args, kwargs))):
            return func(*args, **kwargs)  # an operator within the operator: it comes in by `_Capture.dispatch`
        return self._capture.compute(func, args, kwargs)


class _Capture:
    """One capture on one GPU, in the thread that began it: from there on it stands between operators and machine."""

    def __init__(self, gpu: Gpu):
        self.gpu = gpu
        self.failed = False
        self.launches: list[_Kernel | _Copy] = []
        self.steps: list[_Step] = []
        self.read: weakref.WeakSet[Storage] = weakref.WeakSet()
        self.written: weakref.WeakSet[Storage] = weakref.WeakSet()
        self._thread = threading.get_ident()
        self._recorder = _Recorder(self)
        self._before: dict[int, tuple[Any, Any]] = {}  # by address: memory that was there before, and what it held
        self._fresh: set[int] = set()  # addresses of memory that was made in the capture
        self._kept: list[torch.Tensor] = []  # or an address could become another's
        self._generators: dict[Generator, torch.Tensor] = {}  # and their states before the capture
        self._machines = {name: getattr(machine, name) for name in REPLACED}
        self._replaced = ExitStack()
        for name in REPLACED:
            self._replaced.enter_context(mock.patch.object(machine, name, getattr(self, name)))
        own = classmethod(lambda cls, func, types, args=(), kwargs=None: self.dispatch(cls, func, types, args, kwargs))
        self._replaced.enter_context(mock.patch.object(SimTensor, "__torch_dispatch__", own))
        for name in STATES:
            self._replaced.enter_context(mock.patch.object(Generator, name, self._refusing(getattr(Generator, name))))
        machine.capture = self

    @property
    def here(self) -> bool:
        """Whether it is this thread that captures: what others launch runs as ever."""
        return threading.get_ident() == self._thread

    def end(self) -> None:
        """Note nothing more, and let everything be as it was before."""
        if machine.capture is not self:
            return
        machine.capture = None
        self._replaced.close()
        for storage, held in self._before.values():
            if storage.nbytes() == held.nbytes():
                storage.copy_(held)
        for step in self.steps:
            for _, tensor in step.made:
                storage: Any = tensor.untyped_storage()
                storage.fill_(NAN if tensor.is_floating_point() or tensor.is_complex() else 0)
        for generator, state in self._generators.items():
            generator.set_state(state)
        self._before.clear()
        self._generators.clear()

    def refuse(self, why: str):
        """Raise RuntimeError; the capture has failed."""
        self.failed = True
        raise RuntimeError(why)

    def refuse_waiting(self) -> None:
        self.refuse(refusals.NO_WAITING_IN_A_CAPTURE)

    def _refusing(self, method: Callable) -> Callable:
        """A generator's method, refused to the thread that captures: a replay would not do it again."""

        @wraps(method)
        def call(generator, *args):
            if self.here:
                self.refuse(refusals.NO_STATE_IN_A_CAPTURE)
            return method(generator, *args)

        return call

    # --- operators: in place of `dispatch` -------------------------------------------------------------------------

    def dispatch(self, cls, func, types, args=(), kwargs=None):
        __tracebackhide__ = True
        if not self.here:
            return dispatch(cls, func, types, args, kwargs)
        if func.namespace in OF_COLLECTIVES:
            self.refuse(refusals.NO_COLLECTIVES_IN_A_CAPTURE)
        operator = operator_of(func)
        if not operator.copies:
            args = tuple(_as_it_is_now(arg) for arg in args)
            kwargs = {name: _as_it_is_now(arg) for name, arg in (kwargs or {}).items()}
        with self._recorder if machine.compute else nullcontext():
            out = dispatch(cls, func, types, args, kwargs)
        if operator.reads:
            self.read.update(_storages((args, kwargs)))
        if not operator.makes_views:
            given = dict(zip(operator.names, args, strict=False)) | (kwargs or {})
            self.written.update(_storages((out, *(given.get(name) for name in operator.writes))))
        return out

    def compute(self, func, args, kwargs):
        """Run one of the CPU's operators, and note it if it computes anything."""
        operator = operator_of(func)
        given = dict(zip(operator.names, args, strict=False)) | kwargs
        written = [*tensors_among(given.get(name) for name in (*operator.writes, *UNSAID))]
        self._remember(written)
        out = func(*args, **kwargs)
        if operator.packet in MAKES_ROOM or func in MAKES_NO_KERNEL:
            self._note_room(out)
            return out
        old = {0, *map(_address, tensors_among((args, kwargs)))}
        made = [(place, tensor) for place, tensor in enumerate(tensors_among((out,))) if _address(tensor) not in old]
        if made or written:
            self._note(_Step(func, args, kwargs, made, random_numbers.standing_in))
        return out

    def made(self, func, args, kwargs, value: torch.Tensor) -> None:
        """A tensor was made of no other: by this function, as on the CPU."""
        if not (self.here and machine.compute):
            return
        if func in MAKES_NO_KERNEL:
            self._note_room(value)
        else:
            self._note(_Step(func, args, {**kwargs, "device": "cpu"}, [(0, value)], None))

    def _note(self, step: _Step) -> None:
        self.steps.append(step)
        self._fresh.update(_address(tensor) for _, tensor in step.made)

    def _note_room(self, value: torch.Tensor) -> None:
        self._fresh.add(_address(value))
        self._kept.append(value)

    def _remember(self, tensors: Iterable[torch.Tensor]) -> None:
        """What is about to be written, if it was there before the capture, and the generator that is drawn from."""
        for tensor in tensors:
            address = _address(tensor)
            if address and address not in self._fresh and address not in self._before:
                storage = tensor.untyped_storage()
                self._before[address] = storage, storage.clone()
        generator = random_numbers.standing_in
        if generator is not None and generator not in self._generators:
            self._generators[generator] = _get_state(generator)

    # --- in place of what the machine does -------------------------------------------------------------------------

    def launch(self, gpu: Gpu, seconds: float, name: str, moved: int, flops: int, queue=None, replayed=None) -> None:
        if not self.here:
            self._machines["launch"](gpu, seconds, name, moved, flops, queue, replayed)
        elif not gpu.within:
            self._pay(gpu)
            self.launches.append(_Kernel(seconds, name, moved, flops, origin.here()))

    def copy_with_host(self, gpu: Gpu, size: int, *, to_host: bool, pinned=False, wait=True, replayed=None) -> None:
        if not self.here:
            more = {"pinned": pinned, "wait": wait, "replayed": replayed}
            self._machines["copy_with_host"](gpu, size, to_host=to_host, **more)
            return
        if wait:
            self.refuse(refusals.NO_COPY_IN_A_CAPTURE)
        self._pay(gpu)
        self.launches.append(_Copy(size, to_host, origin.here()))

    def _pay(self, gpu: Gpu) -> None:
        if gpu is not self.gpu:
            self.refuse(refusals.of_one_gpu(self.gpu.device, gpu.device))
        machine.clock.pay(gpu.profile.launch, gpu.index)

    def copy_between(self, source: Gpu, target: Gpu, size: int) -> None:
        if self.here:
            self.refuse(refusals.of_one_gpu(self.gpu.device, (target if source is self.gpu else source).device))
        self._machines["copy_between"](source, target, size)

    def communicate(self, *args) -> None:
        if self.here:
            self.refuse(refusals.NO_COLLECTIVES_IN_A_CAPTURE)
        self._machines["communicate"](*args)

    def wait_until(self, moment: float) -> None:
        if self.here:
            self.refuse_waiting()
        self._machines["wait_until"](moment)


REPLACED = ("launch", "copy_with_host", "copy_between", "communicate", "wait_until")


def _as_it_is_now(arg):
    """A number on the CPU is given to a kernel when it is captured; what it is at a replay does not matter."""
    is_number = isinstance(arg, torch.Tensor) and type(arg) is not SimTensor and arg.dim() == 0
    return arg.detach().clone() if is_number and arg.device.type == "cpu" else arg


def _storages(args) -> Iterable[Storage]:
    return (tensor._storage for tensor in tensors_among(args) if type(tensor) is SimTensor)


# --- what programs use ---------------------------------------------------------------------------------------------


class CUDAGraph:
    """As `torch.cuda.CUDAGraph`: `capture_begin` and `capture_end` on a stream that is not the default one, then
    `replay`. Values that the graph works on stay in the computer's memory as long as it lives, and are not shared with
    other graphs, whatever `pool` says.
    """

    def __init__(self, keep_graph: bool = False):
        self._captured: _Capture | None = None
        self._is_complete = False
        self._pool: tuple[int, int] | None = None

    def capture_begin(self, pool=None, capture_error_mode: str = "global", check_input_liveness: bool = False) -> None:
        """Note what this thread gives to the current GPU from here on, and start none of it.

        Raises RuntimeError on a default stream, while another capture is under way, or where there is a graph already.
        """
        gpu = machine.gpu(None)
        if capture_error_mode not in MODES:
            allowed = "`global`, `thread_local`, or `relaxed`"
            raise RuntimeError(f"Unknown capture error mode. Expected {allowed}, got {capture_error_mode}")
        if pool is not None and not isinstance(pool, tuple):
            raise TypeError(f"pool={pool!r} is no pool: torch.cuda.graph_pool_handle() and graph.pool() give one")
        if self._captured is not None:
            raise RuntimeError(
                "This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance."
            )
        if machine.capture is not None:
            raise RuntimeError("Another graph is being captured: one capture at a time in a process. End that first.")
        if machine.queue(gpu) is gpu.queues[0]:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                "them on the default stream.)"
            )
        self._pool = graph_pool_handle() if pool is None else pool
        self._captured = _Capture(gpu)

    def capture_end(self) -> None:
        """End the capture. RuntimeError without one, or where something in it was refused."""
        captured = self._captured
        if captured is None or machine.capture is not captured:
            self._captured = None if not self._is_complete else captured
            raise RuntimeError("There is no capture of this graph under way: capture_begin() begins one.")
        captured.end()
        if captured.failed:
            self.reset()
            raise RuntimeError("The capture has failed: something in it was refused before. Capture it again.")
        self._is_complete = True
        if not captured.launches:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong "
                "device or stream.",
                stacklevel=2,
            )

    def instantiate(self) -> None:
        """Nothing to do: a captured graph is ready."""

    def replay(self) -> None:
        """Do what was captured once more, on the current stream of its GPU. The host pays for one launch.

        Raises RuntimeError without a graph, while one is captured, or where the machine has become another since.
        """
        __tracebackhide__ = True
        captured = self._captured
        if captured is None or not self._is_complete:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if captured.gpu.retired:
            raise RuntimeError(refusals.GRAPH_OF_ANOTHER_MACHINE)
        if machine.capture is not None and machine.capture.here:
            machine.capture.refuse(refusals.NO_REPLAY_IN_A_CAPTURE)
        _launch_again(captured)
        if machine.compute:
            run = _compute_again if machine.stopwatch is None else machine.stopwatch.around(_compute_again)
            run(captured.steps)

    def reset(self) -> None:
        """Forget what was captured, and end a capture that is under way."""
        if self._captured is not None:
            self._captured.end()
        self._captured, self._is_complete, self._pool = None, False, None

    def pool(self) -> tuple[int, int]:
        """What another capture is given to share memory with this one. RuntimeError before a capture."""
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Nothing to do: a replay draws from the generators that the capture drew from."""

    def __del__(self):
        if self._captured is not None:
            self._captured.end()


def _launch_again(captured: _Capture) -> None:
    """Start the kernels and copies of a graph on the current stream of its GPU, for one launch by the host."""
    __tracebackhide__ = True
    gpu = captured.gpu
    queue = machine.queue(gpu)
    for storage in captured.read:
        if storage.written is not None and storage.written[0] is not queue:
            ordering.heed(storage.written, queue, backward=False)
    launched = machine.clock.pay(gpu.profile.launch, gpu.index)
    for each in captured.launches:
        each.start(gpu, launched)
    for storage in captured.written:
        storage.written = queue, queue.free, False


def _compute_again(steps: list[_Step]) -> None:
    __tracebackhide__ = True
    with torch.inference_mode():
        for step in steps:
            step.run()


def graph_pool_handle() -> tuple[int, int]:
    """A pool of memory's name, for graphs that share one. Here they share none."""
    return next(_handles), 0


class graph:
    """As `torch.cuda.graph`: what is launched inside becomes `cuda_graph`, on `stream` or on a side stream of its own.

    Whatever streams the block uses, a replay runs all of it on one. TypeError where `cuda_graph` is no graph.
    """

    _streams: ClassVar[dict[int, Stream]] = {}

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool=None,
        stream: Stream | None = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        annotation_config: dict | None = None,
        check_input_liveness: bool = False,
    ):
        if not isinstance(cuda_graph, CUDAGraph):
            raise TypeError(f"a graph is captured into a torch.cuda.CUDAGraph(), not into {cuda_graph!r}")
        self.cuda_graph, self.capture_stream = cuda_graph, stream
        self._settings = pool, capture_error_mode

    def __enter__(self) -> None:
        gpu = machine.gpu(None if self.capture_stream is None else self.capture_stream.device)
        machine.wait_for(gpu)
        gpu.memory.empty_cache()
        self._inside = ExitStack()
        self._inside.enter_context(self.capture_stream or self._side_stream(gpu))
        try:
            self.cuda_graph.capture_begin(*self._settings)
        except BaseException:
            self._inside.close()
            raise

    def __exit__(self, kind, *exception) -> None:
        with self._inside:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.reset()

    def _side_stream(self, gpu: Gpu) -> Stream:
        stream = self._streams.get(gpu.index)
        if stream is None or stream._queue.gpu is not gpu:
            stream = self._streams[gpu.index] = Stream(gpu.index)
        return stream
