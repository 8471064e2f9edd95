"""The simulated machine: its GPUs, the links between them, its clock, and the log of what they did."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from . import origin, torch_private
from .clock import CLOCKS, Engine, PacedClock, Queue, Stopwatch, VirtualClock
from .faults import Fault, at_share, faults_from, longer, share_of
from .memory import Memory
from .priorities import Kernel, PriorityEngine
from .profiles import GPUS, LINKS, NETWORKS, GpuProfile, LinkProfile, find
from .random_numbers import Generator

DEVICE_TYPE = "simgpu"
MOST_GPUS = 64
NETWORK_STREAM = -1  # in the log: collectives have streams of their own, which nothing else can use
# Newest records kept: a training step of ResNet50 makes about 700.
LOG_LENGTH = 200_000


class Record(NamedTuple):
    """One kernel, copy or communication. Times in seconds of the machine's clock.

    `device` and `other` are GPU numbers or 'cpu'; of communication `other` names the ranks that take part, in words.
    That starts when this rank is ready, and so includes its waiting for the others, as a kernel of NCCL's does.
    """

    device: int
    stream: int
    name: str
    kind: str  # kernel, h2d, d2h, d2d, comm
    start: float
    end: float
    bytes: int
    flops: int
    launched: float  # when the host gave it to the stream
    other: int | str | None  # the other end of a copy
    module: str  # `layer1.0.conv1`, the outermost module's class for itself, "" outside modules
    phase: str  # forward, backward or optimizer
    label: str  # what the user called this part of the work: `simgpu.label`


class HostCopy(NamedTuple):
    """A copy from a GPU to the host that let the host go on. Times in seconds of the machine's clock."""

    device: int
    bytes: int
    launched: float
    end: float


class Gpu:
    """One simulated GPU. Tensors hold a reference to the one they live on.

    It has one engine for kernels, one for copies in, one for copies out, and two for what goes to other processes: one
    for the links within a node, one for its network adapter.
    `retired` turns true when the machine is reconfigured: what lived on it is refused from then on. While `within` is
    above 0 what runs on it is part of a call that has been charged as a whole. `longer` is what faults make of the
    seconds of a kernel, None where there are none.
    """

    __slots__ = (
        *("compute", "copy_in", "copy_out", "link", "network"),
        *("device", "generator", "index", "longer", "memory", "profile", "queues", "retired", "within"),
    )

    def __init__(self, index: int, profile: GpuProfile, memory: int, faults: tuple[Fault, ...] = ()):
        self.index = index
        self.longer = longer(faults, _rank_of(index)) if faults else None
        self.device = torch.device(DEVICE_TYPE, index)
        self.profile = profile
        self.retired = False
        self.within = 0
        self.memory = Memory(str(index), memory)
        self.generator = Generator(self.device, torch.initial_seed())
        self.queues = [Queue(self, 0)]
        self.compute, self.copy_in, self.copy_out = Engine(), Engine(), Engine()
        self.link, self.network = Engine(), Engine()

    @property
    def free(self) -> float:
        """When everything that was given to this GPU is done."""
        return max(queue.free for queue in self.queues)

    def __repr__(self) -> str:
        return str(self.device)


@dataclass(frozen=True)
class Settings:
    """What `enable` was asked for. Equal settings are the same machine."""

    count: int = 2
    gpu: GpuProfile = GPUS["V100"]
    link: LinkProfile = LINKS["nvlink2"]
    host_link: LinkProfile = LINKS["pcie3"]
    nodes: int = 1
    network: LinkProfile = NETWORKS["200G"]
    clock: str = "virtual"
    compute: bool = True
    memory: int = 0
    faults: tuple[Fault, ...] = ()


def _rank_of(index: int) -> int:
    """The rank that has a GPU of this process: by its number, from that of the node's first rank on."""
    return index + int(os.environ.get("RANK", 0)) - int(os.environ.get("LOCAL_RANK", 0))


class _Current(threading.local):
    """What is current in one thread, as on CUDA: a GPU, and on each GPU a stream."""

    def __init__(self):
        self.at = 0, None  # a GPU, and the node of the backward pass in which it was made the current one
        self.queues: dict[Gpu, Queue] = {}
        self.around_backward: dict[Gpu, Queue] | None = None  # the queues with which the backward pass was begun
        self.keeps_counts = False  # whether whole numbers have values though there are only shapes

    @property
    def gpu(self) -> int:
        """In a backward pass that of the node, whose thread in PyTorch's engine begins by choosing its device."""
        if self.around_backward is not None and (node := torch_private.current_node()) is not self.at[1]:
            own = (each.device for each in torch_private.gradients_of(node))
            self.at = next((device.index for device in own if device.type == DEVICE_TYPE), self.at[0]), node
        return self.at[0]

    @gpu.setter
    def gpu(self, index: int) -> None:
        self.at = index, None if self.around_backward is None else torch_private.current_node()


class Machine:
    """The simulated GPUs of this process, and which of them is current."""

    def __init__(self):
        self.settings: Settings | None = None
        self.generation = 0  # how many machines this has been
        self.gpus: tuple[Gpu, ...] = ()
        self.here = _Current()
        self.chosen = False  # whether anybody has made a GPU the current one
        self.clock = VirtualClock()
        self.compute = True
        self.stopwatch: Stopwatch | None = None
        # Whether anybody made a stream: with one stream on each GPU everything is simpler, and faster.
        self.several_streams = False
        # Whether priorities of streams are honoured. A grader, which has to trust the log, wants each record at once.
        self.priorities = True
        # Where streams have priorities: what the log has not got yet, in the order of the launches, because a kernel
        # in it may still be delayed.
        self.unlogged: deque[Kernel | tuple] | None = None
        self.copies_shapes = False  # whether what has no values may be copied to the host
        # Copies to the host that it has not waited for since.
        self.unwaited: deque[HostCopy] = deque(maxlen=LOG_LENGTH)
        self.collectives = 0  # that this process has begun, where there are faults
        # Of a graph, in a thread of this process: what notes that in place of the machine (`graphs`).
        self.capture: Any = None
        # Another device type that means simulated GPUs, while code for it runs on them.
        self.also_named: str | None = None
        # Plain tuples, of what a Record holds: making those is left to the reader of the log. Each raises Python's
        # auditing event "simgpu.record" (and "simgpu.cleared" where a machine begins), for who has to trust a log.
        self.log: deque[tuple] | None = deque(maxlen=LOG_LENGTH)

    @property
    def known_settings(self) -> Settings:
        """The settings, of a machine that has GPUs."""
        assert self.settings is not None, "without settings there is no GPU"
        return self.settings

    def configure(self, settings: Settings) -> None:
        """Become the machine that `settings` describe; the same settings again change nothing."""
        if settings == self.settings:
            return
        if self.capture is not None:
            self.capture.end()
        for gpu in self.gpus:
            gpu.retired = True
        self.settings = settings
        self.generation += 1
        self.gpus = tuple(Gpu(index, settings.gpu, settings.memory, settings.faults) for index in range(settings.count))
        self.here = _Current()
        self.chosen = False
        self.clock = CLOCKS[settings.clock]()
        self.compute = settings.compute
        self.stopwatch = Stopwatch() if self.compute and isinstance(self.clock, PacedClock) else None
        self.several_streams = False
        self.collectives = 0
        self.unlogged = None
        self.unwaited.clear()
        origin.forget()
        if self.log is not None:
            self.log.clear()
        sys.audit("simgpu.cleared")

    def keep_log(self, most: int = LOG_LENGTH) -> None:
        """Keep the newest `most` records from now on; 0 keeps none and costs nothing."""
        self.settle()
        self.log = deque(self.log or (), maxlen=most) if most else None

    # --- devices and streams ----------------------------------------------------------------------------------

    def gpu(self, device: torch.device | str | int | None) -> Gpu:
        """The GPU that `device` names; None, or a name without a number, is the current one.

        Raises RuntimeError for a number that the machine does not have, ValueError for another device type.
        """
        index = self.index_of(device)
        if not 0 <= index < len(self.gpus):
            error = f"{self.also_named.upper() if self.also_named else DEVICE_TYPE} error: invalid device ordinal"
            raise RuntimeError(
                f"{error}: there is no {self.also_named or DEVICE_TYPE}:{index}. "
                f"{self.inventory()}; simgpu.enable(count={max(index + 1, 1)}) would give more."
                if index >= 0
                else f"{error} {index}. {self.inventory()}."
            )
        return self.gpus[index]

    def index_of(self, device: torch.device | str | int | None) -> int:
        """The number in a device's name, or the current GPU's where it has none."""
        if isinstance(device, int):
            return device
        if device is None:
            return self.here.gpu
        device = torch.device(device)
        if device.type not in (DEVICE_TYPE, self.also_named):
            raise ValueError(f"Expected a {DEVICE_TYPE} device, but got: {device}")
        return self.here.gpu if device.index is None else device.index

    def inventory(self) -> str:
        """One sentence naming the devices that exist."""
        names = ", ".join(f"{self.also_named or DEVICE_TYPE}:{gpu.index}" for gpu in self.gpus)
        return f"This machine has {len(self.gpus)} simulated GPU{'s' if len(self.gpus) != 1 else ''}: {names}"

    def queue(self, gpu: Gpu) -> Queue:
        """The queue of the current stream of a GPU."""
        return self.here.queues.get(gpu, gpu.queues[0]) if self.several_streams else gpu.queues[0]

    def add_queue(self, gpu: Gpu, priority: int = 0) -> Queue:
        """A new queue on a GPU, for a new stream. As on CUDA a lower `priority` goes first, and those above 0 are 0."""
        if not self.several_streams:
            self.several_streams = True
            for each in self.gpus:
                for engine in (each.compute, each.copy_in, each.copy_out):
                    engine.busy = [[0.0, engine.free]]
        queue = Queue(gpu, len(gpu.queues), min(priority, 0))
        gpu.queues.append(queue)
        if queue.priority and self.priorities and self.unlogged is None:
            self.unlogged = deque()
            for each in self.gpus:
                each.compute = PriorityEngine(each.compute)
        return queue

    # --- time -----------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def backward(self) -> Iterator[None]:
        """Around a backward pass. One that fails may have begun calls that it did not end."""
        here = self.here
        before, at = here.around_backward, here.at
        here.around_backward = here.queues
        try:
            with self.clock.backward(), origin.backward():
                yield
        except BaseException:
            for gpu in self.gpus:
                gpu.within = 0
            raise
        finally:
            here.around_backward, here.at = before, at

    def launch(
        self,
        gpu: Gpu,
        seconds: float,
        name: str,
        moved: int,
        flops: int,
        queue: Queue | None = None,
        replayed: tuple[float, origin.Origin] | None = None,
    ) -> None:
        """A kernel of `seconds` on this queue of `gpu`, its current stream's if None.

        `replayed`, of a kernel in a graph: when the host launched that, in seconds, and where the kernel came from.
        """
        if gpu.within:
            return
        if gpu.longer is not None:
            seconds = gpu.longer(seconds)
        start = launched = self.clock.pay(gpu.profile.launch, gpu.index) if replayed is None else replayed[0]
        engine = gpu.compute
        queue = queue or self.queue(gpu)
        if self.unlogged is not None:
            whence = origin.here() if replayed is None else replayed[1]
            self._launch_by_priority(queue, Kernel(queue, seconds, launched, (name, moved, flops, whence)))
            return
        if self.several_streams:
            start = engine.first_gap(max(start, queue.free), seconds)
            engine.take(start, start + seconds, launched)
        elif queue.free > start:
            start = queue.free
        queue.free = end = start + seconds
        if engine.free < end:
            engine.free = end
        if self.stopwatch is not None:
            self.stopwatch.claim(seconds)
        if self.log is not None:
            whence = origin.here() if replayed is None else replayed[1]
            entry = (gpu.index, queue.number, name, "kernel", start, end, moved, flops, launched, None, whence)
            self.log.append(entry)
            sys.audit("simgpu.record", entry)

    def _launch_by_priority(self, queue: Queue, kernel: Kernel) -> None:
        """A kernel where streams have priorities: it is logged when its times are final."""
        queue.gpu.compute.place(kernel, max(kernel.launched, queue.free))
        queue.free, queue.last = kernel.end, kernel
        if self.stopwatch is not None:
            self.stopwatch.claim(kernel.seconds)
        if self.log is not None and self.unlogged is not None:
            self.unlogged.append(kernel)
            self._log_what_is_final()

    def told(self, queue: Queue) -> float:
        """When a queue is free, for something that begins or waits outside of it: its kernels keep their times."""
        if self.unlogged is not None:
            self.settle(queue.gpu, queue.free)
        return queue.free

    def settle(self, gpu: Gpu | None = None, moment: float = float("inf")) -> None:
        """Kernels that end by `moment`, of this GPU or of all, keep their times."""
        if self.unlogged is None:
            return
        for each in self.gpus if gpu is None else (gpu,):
            if isinstance(each.compute, PriorityEngine):
                each.compute.settle(moment)
        self._log_what_is_final()

    def _log_what_is_final(self) -> None:
        unlogged = self.unlogged
        while unlogged and (not isinstance(unlogged[0], Kernel) or unlogged[0].final):
            entry = unlogged.popleft()
            if isinstance(entry, Kernel):
                (name, moved, flops, whence), queue, times = entry.about, entry.queue, (entry.start, entry.end)
                place = queue.gpu.index, queue.number
                entry = (*place, name, "kernel", *times, moved, flops, entry.launched, None, whence)
            self._append(entry)

    def _append(self, entry: tuple) -> None:
        if self.log is not None:
            self.log.append(entry)
        sys.audit("simgpu.record", entry)

    def _note(self, entry: tuple) -> None:
        """Log what has its final times; it keeps its place in the order of the launches."""
        if self.unlogged:
            self.unlogged.append(entry)
            self._log_what_is_final()
        else:
            self._append(entry)

    def copy_between(self, source: Gpu, target: Gpu, size: int) -> None:
        """A copy from GPU to GPU: it waits for the current streams of both ends, and both wait for it."""
        link = self.link_between(source, target)
        ends = (self.queue(source), source.copy_out), (self.queue(target), target.copy_in)
        self._copy(source, ends, link.seconds(size), "d2d", size, target.index)

    def link_between(self, one: Gpu, other: Gpu) -> LinkProfile:
        """What two GPUs of this process are linked by: GPUs of one node have consecutive numbers."""
        settings = self.known_settings
        per_node = settings.count // settings.nodes
        nodes = {one.index // per_node, other.index // per_node}
        return settings.link if len(nodes) == 1 else self.network_of(nodes)

    def network_of(self, nodes: Iterable[int]) -> LinkProfile:
        """The network as GPUs of these nodes have it: as fast as the slowest of their adapters."""
        settings = self.known_settings
        return at_share(settings.network, min(share_of(settings.faults, node) for node in nodes))

    def communicate(
        self,
        gpu: Gpu,
        name: str,
        ready: float,
        end: float,
        size: int,
        launched: float,
        among: str,
        whence: origin.Origin | None = None,
    ) -> None:
        """A collective, or one end of a message, which has been given its times. `among`: the ranks, in words."""
        if self.log is not None:
            whence = whence or origin.here()
            entry = (gpu.index, NETWORK_STREAM, name, "comm", ready, end, size, 0, launched, among, whence)
            if self.unlogged is not None:
                self._note(entry)
            else:
                self.log.append(entry)
                sys.audit("simgpu.record", entry)

    def copy_with_host(
        self,
        gpu: Gpu,
        size: int,
        *,
        to_host: bool,
        pinned: bool = False,
        wait: bool = True,
        replayed: tuple[float, origin.Origin] | None = None,
    ) -> None:
        """A copy between a GPU and the host, whose memory is pinned or not; the host waits for its end if told to."""
        link = self.known_settings.host_link
        ends = ((self.queue(gpu), gpu.copy_out if to_host else gpu.copy_in),)
        kind = "d2h" if to_host else "h2d"
        end = self._copy(gpu, ends, link.seconds(size, pageable=not pinned), kind, size, "cpu", replayed)
        if wait:
            self.wait_until(end)
        elif to_host:
            self.unwaited.append(HostCopy(gpu.index, size, self.clock.now(), end))

    def _copy(self, gpu: Gpu, ends, seconds: float, kind: str, size: int, other, replayed=None) -> float:
        """A copy on the queue and engine of each end, all at the same time; returns when it is done."""
        launched = self.clock.pay(gpu.profile.launch, gpu.index) if replayed is None else replayed[0]
        if kind == "d2d":
            self.clock.hand_over(launched, other)
        start = max(launched, *(self.told(queue) for queue, _ in ends))
        if self.several_streams:
            before = None
            while before != start:  # until it fits in a gap of every engine
                before = start
                for _, engine in ends:
                    start = engine.first_gap(start, seconds)
        else:
            start = max(start, *(engine.free for _, engine in ends))
        end = start + seconds
        for queue, engine in ends:
            queue.free = end
            if self.several_streams:
                engine.take(start, end, launched)
            else:
                engine.free = end
        if self.log is not None:
            stream = ends[0][0].number
            whence = origin.here() if replayed is None else replayed[1]
            entry = (gpu.index, stream, "copy", kind, start, end, size, 0, launched, other, whence)
            if self.unlogged is not None:
                self._note(entry)
            else:
                self.log.append(entry)
                sys.audit("simgpu.record", entry)
        return end

    def busy_share(self, gpu: Gpu, period: float) -> float:
        """The share of the last `period` seconds in which a kernel ran on a GPU, from the log."""
        now = self.clock.now()
        begin = now - period
        if gpu.free <= begin:
            return 0.0
        busy = 0.0
        for device, _, _, kind, start, end, *_ in reversed(
            list(self.log or ())
        ):  # a copy: another thread may add to it
            if device != gpu.index or kind != "kernel":
                continue
            if end <= begin and not self.several_streams:  # with one stream, what was logged earlier ended earlier
                break
            busy += max(0.0, min(end, now) - max(start, begin))
        for kernel in list(self.unlogged or ()):
            if isinstance(kernel, Kernel) and kernel.queue.gpu is gpu:
                busy += max(0.0, min(kernel.end, now) - max(kernel.start, begin))
        return busy / period

    def wait_until(self, moment: float) -> None:
        """The host waits."""
        self.clock.wait_until(moment)
        self.know_done(moment)

    def know_done(self, moment: float) -> None:
        """The host has waited until this moment, or asked whether it has come. That time went by is no such thing."""
        self.settle(moment=moment)
        if self.unwaited:
            self.unwaited = deque((copy for copy in self.unwaited if copy.end > moment), maxlen=LOG_LENGTH)

    def wait_for(self, gpu: Gpu) -> None:
        """The host waits until the GPU has done everything that it was given."""
        self.wait_until(gpu.free)

    def wait_for_current(self, gpu: Gpu) -> None:
        """The host waits until the current stream of the GPU has done everything that it was given."""
        self.wait_until(self.queue(gpu).free)


def settings_from(
    count, gpu, link, clock, compute, memory, host_link: object = "pcie3", nodes=1, network: object = "200G", faults=()
) -> Settings:
    """Settings from what a user wrote. Raises ValueError that names what is wrong and what there is."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_GPUS:
        raise ValueError(f"simgpu.enable(count={count!r}): count must be a whole number from 1 to {MOST_GPUS}")
    if clock not in CLOCKS:
        raise ValueError(f"simgpu.enable(clock={clock!r}): there is no such clock. There are: {', '.join(CLOCKS)}")
    if not isinstance(nodes, int) or isinstance(nodes, bool) or nodes < 1:
        raise ValueError(f"simgpu.enable(nodes={nodes!r}): nodes must be a whole number from 1 on")
    profile, link_profile = find("gpu", GPUS, gpu), find("link", LINKS, link)
    capacity = profile.memory if memory is None else memory
    if isinstance(capacity, bool) or not isinstance(capacity, (int, float)) or capacity <= 0:
        raise ValueError(f"simgpu.enable(memory={memory!r}): memory is a number of bytes for each GPU, above 0")
    return Settings(
        count=count,
        gpu=profile,
        link=link_profile,
        host_link=find("host_link", LINKS, host_link),
        nodes=nodes,
        network=find("network", NETWORKS, network),
        clock=clock,
        compute=bool(compute),
        memory=int(capacity),
        faults=faults_from(faults, count, nodes),
    )


machine = Machine()
