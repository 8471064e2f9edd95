"""The simulated machine: its GPUs, the links between them, its clock, and the log of what they did."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import torch

from .clock import CLOCKS, Stream, VirtualClock
from .memory import Memory
from .profiles import GPUS, LINKS, GpuProfile, LinkProfile, find

DEVICE_TYPE = "simgpu"
MOST_GPUS = 64
# Newest records kept: a training step of ResNet50 makes about 700.
LOG_LENGTH = 200_000


PHASE = {False: "forward", True: "backward"}


class Record(NamedTuple):
    """One kernel or copy. Times in seconds of the machine's clock; `device` and `other` are GPU numbers or 'cpu'."""

    device: int
    stream: int
    name: str
    kind: str  # kernel, h2d, d2h, d2d
    start: float
    end: float
    bytes: int
    flops: int
    phase: str  # forward or backward
    other: int | str | None = None  # the other end of a copy


class Gpu:
    """One simulated GPU. Tensors hold a reference to the one they live on.

    It has one compute engine, one engine for copies in and one for copies out. `retired` turns true when the
    machine is reconfigured: what lived on it is refused from then on.
    """

    __slots__ = (
        "compute_free",
        "copy_in_free",
        "copy_out_free",
        "device",
        "index",
        "memory",
        "profile",
        "retired",
        "stream",
        "streams",
    )

    def __init__(self, index: int, profile: GpuProfile, memory: int):
        self.index = index
        self.device = torch.device(DEVICE_TYPE, index)
        self.profile = profile
        self.retired = False
        self.memory = Memory(str(index), memory)
        self.streams = [Stream(self, 0)]
        self.stream = self.streams[0]  # the current one
        self.compute_free = self.copy_in_free = self.copy_out_free = 0.0

    @property
    def free(self) -> float:
        """When everything that was given to this GPU is done."""
        return max(stream.free for stream in self.streams)

    def __repr__(self) -> str:
        return str(self.device)


@dataclass(frozen=True)
class Settings:
    """What `enable` was asked for. Equal settings are the same machine."""

    count: int = 2
    gpu: GpuProfile = GPUS["V100"]
    link: LinkProfile = LINKS["nvlink2"]
    host_link: LinkProfile = LINKS["pcie3"]
    clock: str = "virtual"
    compute: bool = True
    memory: int = 0

    def __hash__(self) -> int:
        return hash((self.count, self.gpu.name, self.link.name, self.clock, self.compute, self.memory))


class Machine:
    """The simulated GPUs of this process, and which of them is current."""

    def __init__(self):
        self.settings: Settings | None = None
        self.gpus: tuple[Gpu, ...] = ()
        self.current = 0
        self.clock = VirtualClock()
        self.compute = True
        # Plain tuples, of what a Record holds: making those is left to whoever reads the log.
        self.log: deque[tuple] | None = deque(maxlen=LOG_LENGTH)

    def configure(self, settings: Settings) -> None:
        """Become the machine that `settings` describe; the same settings again change nothing."""
        if settings == self.settings:
            return
        for gpu in self.gpus:
            gpu.retired = True
        self.settings = settings
        self.gpus = tuple(Gpu(index, settings.gpu, settings.memory) for index in range(settings.count))
        self.current = 0
        self.clock = CLOCKS[settings.clock]()
        self.compute = settings.compute
        if self.log is not None:
            self.log.clear()

    def gpu(self, device: torch.device | str | int | None) -> Gpu:
        """The GPU that `device` names; None, or a name without a number, is the current one.

        Raises RuntimeError for a number that the machine does not have, ValueError for another device type.
        """
        index = self.index_of(device)
        if not 0 <= index < len(self.gpus):
            raise RuntimeError(
                f"simgpu error: invalid device ordinal: there is no {DEVICE_TYPE}:{index}. "
                f"{self.inventory()}; simgpu.enable(count={max(index + 1, 1)}) would give more."
                if index >= 0
                else f"simgpu error: invalid device ordinal {index}. {self.inventory()}."
            )
        return self.gpus[index]

    def index_of(self, device: torch.device | str | int | None) -> int:
        """The number in a device's name, or the current GPU's where it has none."""
        if isinstance(device, int):
            return device
        if device is None:
            return self.current
        device = torch.device(device)
        if device.type != DEVICE_TYPE:
            raise ValueError(f"Expected a {DEVICE_TYPE} device, but got: {device}")
        return self.current if device.index is None else device.index

    def inventory(self) -> str:
        """One sentence naming the devices that exist."""
        names = ", ".join(str(gpu.device) for gpu in self.gpus)
        return f"This machine has {len(self.gpus)} simulated GPU{'s' if len(self.gpus) != 1 else ''}: {names}"

    # --- time -----------------------------------------------------------------------------------------------

    def launch(self, gpu: Gpu, seconds: float, name: str, moved: int, flops: int, backward: bool) -> None:
        """A kernel of `seconds` on the current stream of `gpu`."""
        start = self.clock.pay(gpu.profile.launch)
        stream = gpu.stream
        if stream.free > start:
            start = stream.free
        if gpu.compute_free > start:
            start = gpu.compute_free
        stream.free = gpu.compute_free = end = start + seconds
        if self.log is not None:
            self.log.append((gpu.index, stream.id, name, "kernel", start, end, moved, flops, PHASE[backward], None))

    def copy_between(self, source: Gpu, target: Gpu, size: int, backward: bool) -> None:
        """A copy from GPU to GPU: it waits for the current streams of both ends, and both wait for it."""
        link = self.settings.link
        now = self.clock.pay(source.profile.launch)
        start = max(now, source.stream.free, target.stream.free, source.copy_out_free, target.copy_in_free)
        end = start + link.latency + size / link.bandwidth
        source.stream.free = target.stream.free = source.copy_out_free = target.copy_in_free = end
        if self.log is not None:
            ends = source.index, source.stream.id, "copy", "d2d"
            self.log.append((*ends, start, end, size, 0, PHASE[backward], target.index))

    def copy_with_host(self, gpu: Gpu, size: int, backward: bool, *, to_host: bool) -> None:
        """A copy between a GPU and the host's ordinary (pageable) memory, for whose end the host waits."""
        link = self.settings.host_link
        engine = "copy_out_free" if to_host else "copy_in_free"
        start = max(self.clock.pay(gpu.profile.launch), gpu.stream.free, getattr(gpu, engine))
        end = gpu.stream.free = start + link.latency + size / link.bandwidth
        setattr(gpu, engine, end)
        self.clock.wait_until(end)
        if self.log is not None:
            kind = "d2h" if to_host else "h2d"
            self.log.append((gpu.index, gpu.stream.id, "copy", kind, start, end, size, 0, PHASE[backward], "cpu"))

    def wait_for(self, gpu: Gpu) -> None:
        """The host waits until the GPU has done everything that it was given."""
        self.clock.wait_until(gpu.free)


def settings_from(count, gpu, link, clock, compute, memory) -> Settings:
    """Settings from what a user wrote. Raises ValueError that names what is wrong and what there is."""
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MOST_GPUS:
        raise ValueError(f"simgpu.enable(count={count!r}): count must be a whole number from 1 to {MOST_GPUS}")
    if clock not in CLOCKS:
        raise ValueError(f"simgpu.enable(clock={clock!r}): there is no such clock. There are: {', '.join(CLOCKS)}")
    profile, link_profile = find("gpu", GPUS, gpu), find("link", LINKS, link)
    capacity = profile.memory if memory is None else memory
    if isinstance(capacity, bool) or not isinstance(capacity, (int, float)) or capacity <= 0:
        raise ValueError(f"simgpu.enable(memory={memory!r}): memory is a number of bytes for each GPU, above 0")
    return Settings(
        count=count, gpu=profile, link=link_profile, clock=clock, compute=bool(compute), memory=int(capacity)
    )


machine = Machine()
