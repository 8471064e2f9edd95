"""What PyTorch finds as `torch.simgpu`: the names of `torch.cuda`, for simulated GPUs."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from unittest import mock
from uuid import NAMESPACE_DNS, UUID, uuid5

import torch

from . import memory_history, torch_private
from .graphs import CUDAGraph, graph, graph_pool_handle
from .hardware import DEVICE_TYPE, machine
from .memory import in_units
from .profiles import GpuProfile
from .streams import Event, Stream, is_captured, make_current, stream_of

# NVML's utilization is the share of its last sample period with a kernel running; the period is 1/6 to 1 s.
SAMPLE_PERIOD = 1 / 6
_make_graphed_callables = torch.cuda.make_graphed_callables  # whatever the name stands for later


NO_POOLS = (
    "simgpu has no caching allocator, and so no pools of memory and no symmetric memory: leave out MemPool, and use "
    "the collectives of torch.distributed."
)
NO_RAW_MEMORY = (
    "simgpu has no caching allocator that hands out memory by its address: torch.empty(bytes, dtype=torch.uint8, "
    "device=...) takes as much."
)
NO_SENSORS = (
    "simgpu has no sensors and no NVML: torch.cuda.utilization() and memory_allocated() are what it knows of its load."
)
# Of a multiprocessor, by compute capability: units for float32, most threads, KiB of shared memory. From NVIDIA's "CUDA
# C++ Programming Guide", "Compute Capabilities" (and its table "Throughput of Native Arithmetic Instructions").
MULTIPROCESSORS = {
    **{(6, 0): (64, 2048, 64), (6, 1): (128, 2048, 96), (7, 0): (64, 2048, 96), (7, 5): (64, 1024, 64)},
    **{(8, 0): (64, 2048, 164), (8, 6): (128, 1536, 100), (8, 9): (128, 1536, 100), (9, 0): (128, 2048, 228)},
    (10, 0): (128, 2048, 228),
}


# Of a product: KiB of its L2 cache, by NVIDIA's white papers on Pascal, Volta, Turing, A100, GA102, H100 and Ada.
CACHES = {
    **{"P4": 2048, "P40": 3072, "P100": 4096, "GP100": 4096, "V100": 6144, "T4": 4096, "2080Ti": 5632},
    **{"A100": 40960, "A40": 6144, "H100": 51200, "H200": 51200, "L4": 49152},
}


def _clock_of(profile: GpuProfile) -> float:
    """The cycles of a GPU's clock in a second, from its peak: a unit multiplies and adds once in a cycle."""
    units = MULTIPROCESSORS.get(profile.capability, (128,))[0]
    return profile.flops / (2 * profile.multiprocessors * units)


def _none_of(name: str, why: str) -> type:
    """A class, since code asks whether something is one. There are none."""

    def __init__(self, *args, **kwargs):
        raise RuntimeError(why)

    return type(name, (), {"__init__": __init__})


@dataclass(frozen=True)
class DeviceProperties:
    """What `get_device_properties` tells, as far as a simulated GPU has it. Sizes in bytes, `clock_rate` in kHz."""

    name: str
    total_memory: int
    multi_processor_count: int
    major: int = 0
    minor: int = 0
    clock_rate: int = 0
    uuid: UUID | None = None
    warp_size: int = 32
    regs_per_multiprocessor: int = 64 * 2**10
    shared_memory_per_block: int = 48 * 2**10

    @property
    def max_threads_per_multi_processor(self) -> int:
        return self._multiprocessor()[1]

    @property
    def shared_memory_per_multiprocessor(self) -> int:
        return self._multiprocessor()[2] * 2**10

    @property
    def L2_cache_size(self) -> int:
        product = self.name.replace("-", " ").partition(" ")[0]
        if product not in CACHES:
            raise AttributeError
        return CACHES[product] * 2**10

    @property
    def shared_memory_per_block_optin(self) -> int:
        own = self._multiprocessor()[2] * 2**10
        return self.shared_memory_per_block if self.major < 7 else own if self.major < 8 else own - 2**10

    def _multiprocessor(self) -> tuple[int, int, int]:
        if (self.major, self.minor) not in MULTIPROCESSORS:
            raise AttributeError
        return MULTIPROCESSORS[self.major, self.minor]

    def __getattr__(self, name: str):
        raise AttributeError(f"the profile of a simulated GPU says nothing of {name}: simgpu.profiles has what it does")

    def __repr__(self) -> str:
        return (
            f"_SimgpuDeviceProperties(name='{self.name}', total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count})"
        )


class _Generators(Sequence):
    """The generator of each GPU: what `torch.cuda.default_generators` is."""

    def __len__(self) -> int:
        return len(machine.gpus)

    def __getitem__(self, index):
        return [gpu.generator for gpu in machine.gpus][index]


class _Device:
    """Inside, a device is the current one. None or a negative number changes nothing."""

    def __init__(self, device):
        self._wanted = None if isinstance(device, int) and device < 0 else device
        self.idx = -1 if self._wanted is None else machine.gpu(device).index
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = machine.here.gpu
        if self._wanted is not None:
            device_module.set_device(self.idx)

    def __exit__(self, *exception) -> None:
        machine.here.gpu = self.prev_idx


class _DeviceOf(_Device):
    """Inside, the device of `tensor` is the current one, if it is a simulated GPU."""

    def __init__(self, tensor: torch.Tensor):
        super().__init__(tensor.get_device() if tensor.device.type in (DEVICE_TYPE, machine.also_named) else None)


class DeviceModule(ModuleType):
    """`torch.simgpu`. Device arguments are a torch.device, a name, a number, or None for the current one."""

    Stream = Stream
    Event = Event

    def __reduce__(self):
        """By its name, as other modules: code that uses it can be sent to another process."""
        return importlib.import_module, (self.__name__,)

    # --- devices ----------------------------------------------------------------------------------------------

    def init(self) -> None:
        """Nothing to do: `simgpu.enable` has done it."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        """Whether anybody has chosen a GPU or put something on one, as on CUDA: until then DeviceMesh chooses one."""
        return machine.chosen or any(gpu.memory.peak for gpu in machine.gpus)

    def device_count(self) -> int:
        return len(machine.gpus)

    def current_device(self) -> int:
        return machine.gpu(None).index

    def set_device(self, device) -> None:
        """Make `device` the one that `simgpu` without a number means. RuntimeError if there is no such one."""
        machine.here.gpu = machine.gpu(device).index
        machine.chosen = True
        if machine.here.gpu:
            _let_names_mean_the_current()

    device, device_of = _Device, _DeviceOf

    def synchronize(self, device=None) -> None:
        """Wait until `device` has finished everything that it was given."""
        machine.wait_for(machine.gpu(device))

    def get_device_name(self, device=None) -> str:
        """The name of the hardware profile, marked as simulated."""
        return f"{machine.gpu(device).profile.name} (simulated)"

    def get_device_properties(self, device=None) -> DeviceProperties:
        gpu = machine.gpu(device)
        sizes = gpu.memory.capacity, gpu.profile.multiprocessors
        number = uuid5(NAMESPACE_DNS, f"{gpu.profile.name}:{gpu.index}")
        more = gpu.profile.capability, round(_clock_of(gpu.profile) / 1e3), number
        return DeviceProperties(self.get_device_name(device), *sizes, *more[0], *more[1:])

    def get_device_capability(self, device=None) -> tuple[int, int]:
        """The compute capability of the profile's product: (8, 0) for an A100. (0, 0) for one that is no product."""
        return machine.gpu(device).profile.capability

    def can_device_access_peer(self, device, peer_device) -> bool:
        """Whether one GPU can read the other's memory: simulated ones always can."""
        return machine.gpu(device) is not machine.gpu(peer_device)

    def utilization(self, device=None) -> int:
        """Percent of the last sample period (1/6 s, on the machine's clock) in which a kernel ran, as NVML has it.

        RuntimeError if the log is off: it is read from there.
        """
        if machine.log is None:
            raise RuntimeError("torch.simgpu.utilization reads the log, which is off: simgpu.keep_log() turns it on.")
        return round(100 * machine.busy_share(machine.gpu(device), SAMPLE_PERIOD))

    # --- streams ----------------------------------------------------------------------------------------------

    def current_stream(self, device=None) -> Stream:
        return stream_of(machine.queue(machine.gpu(device)))

    def default_stream(self, device=None) -> Stream:
        return stream_of(machine.gpu(device).queues[0])

    def set_stream(self, stream: Stream | None) -> None:
        """Launch on `stream` from now on. `with torch.simgpu.stream(s):` also goes back."""
        if stream is not None:
            make_current(stream)

    @contextmanager
    def stream(self, stream: Stream | None) -> Iterator[Stream | None]:
        """Inside, what is launched on the stream's GPU goes to `stream`. None changes nothing."""
        if stream is None:
            yield None
            return
        with stream:
            yield stream

    def ExternalStream(self, stream_ptr: int, device=None) -> Stream:
        """The stream that has this number as its `cuda_stream`. ValueError if there is none."""
        for queue in machine.gpu(device).queues:
            if stream_of(queue).cuda_stream == stream_ptr:
                return stream_of(queue)
        raise ValueError(f"no stream of {DEVICE_TYPE} has the handle {stream_ptr}, and other libraries have none here")

    def spin(self, cycles: int) -> None:
        """`torch.cuda._sleep`: a kernel of so many cycles of the GPU's clock, on the current stream."""
        gpu = machine.gpu(None)
        machine.launch(gpu, cycles / _clock_of(gpu.profile), "spin_kernel", 0, 0)

    # --- graphs -----------------------------------------------------------------------------------------------

    CUDAGraph, graph = CUDAGraph, graph

    def graph_pool_handle(self) -> tuple[int, int]:
        return graph_pool_handle()

    def is_current_stream_capturing(self) -> bool:
        """Whether what this thread gives to the current GPU becomes part of a graph."""
        return is_captured(machine.gpu(None))

    def make_graphed_callables(self, *args, **kwargs):
        """PyTorch's own, which captures a forward and a backward graph of each callable."""
        names = ("CUDAGraph", "graph", "Stream", "stream", "synchronize")
        ours = mock.patch.multiple(torch.cuda, **{name: getattr(self, name) for name in names})
        with ours, mock.patch.object(torch.cuda.graphs, "graph_pool_handle", graph_pool_handle):
            return _make_graphed_callables(*args, **kwargs)

    # --- memory -----------------------------------------------------------------------------------------------

    def memory_allocated(self, device=None) -> int:
        """Bytes that tensors hold on `device`."""
        return machine.gpu(device).memory.allocated

    def max_memory_allocated(self, device=None) -> int:
        """The most bytes that tensors held on `device`, since the start or `reset_peak_memory_stats`."""
        return machine.gpu(device).memory.peak

    def memory_reserved(self, device=None) -> int:
        """Bytes taken from the GPU and kept: the most that was allocated since the start or `empty_cache`."""
        return machine.gpu(device).memory.reserved

    def max_memory_reserved(self, device=None) -> int:
        """The most bytes that were reserved, since the start or `reset_peak_memory_stats`."""
        return machine.gpu(device).memory.reserved_peak

    def reset_peak_memory_stats(self, device=None) -> None:
        machine.gpu(device).memory.reset_peak()

    memory_cached, max_memory_cached = memory_reserved, max_memory_reserved  # their names until PyTorch 1.4
    reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats

    def reset_accumulated_memory_stats(self, device=None) -> None:
        """Nothing: what was allocated and freed in all is not counted."""

    def set_per_process_memory_fraction(self, fraction: float, device=None) -> None:
        """Let tensors take this share of the memory of `device`; more is out of memory."""
        if not isinstance(fraction, float) or not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0.0 to 1.0")
        memory = machine.gpu(device).memory
        memory.limit = int(fraction * memory.capacity)

    def get_per_process_memory_fraction(self, device=None) -> float:
        memory = machine.gpu(device).memory
        return memory.limit / memory.capacity

    def device_memory_used(self, device=None) -> int:
        """Bytes that this process holds on `device`."""
        return machine.gpu(device).memory.reserved

    def list_gpu_processes(self, device=None) -> str:
        gpu = machine.gpu(device)
        held = gpu.memory.reserved / 2**20
        return f"GPU:{gpu.index}\nprocess {os.getpid():>10d} uses {held:>12.3f} MB GPU memory"

    def _no_sensors(self, *args, **kwargs):
        raise RuntimeError(NO_SENSORS)

    memory_usage = temperature = power_draw = clock_rate = _no_sensors

    def memory_stats(self, device=None) -> dict[str, int]:
        """The numbers of PyTorch's statistics that a simulated GPU has, in bytes."""
        memory = machine.gpu(device).memory
        return {
            "allocated_bytes.all.current": memory.allocated,
            "allocated_bytes.all.peak": memory.peak,
            "reserved_bytes.all.current": memory.reserved,
            "reserved_bytes.all.peak": memory.reserved_peak,
        }

    def memory_stats_as_nested_dict(self, device=None) -> dict:
        """`memory_stats`, with a dictionary for each part of a name."""
        nested: dict = {}
        for name, value in self.memory_stats(device).items():
            what, pool, which = name.split(".")
            nested.setdefault(what, {}).setdefault(pool, {})[which] = value
        return nested

    def memory_summary(self, device=None, abbreviated: bool = False) -> str:
        """A small table: what is allocated, the peak, what is free."""
        gpu = machine.gpu(device)
        memory = gpu.memory
        rows = {
            "Allocated memory": memory.allocated,
            "Peak memory": memory.peak,
            "Reserved memory": memory.reserved,
            "Free memory": memory.capacity - memory.allocated,
            "Capacity": memory.capacity,
        }
        lines = [f"{gpu.device}: {self.get_device_name(device)}"]
        return "\n".join(lines + [f"  {name:<18}{in_units(size):>14}" for name, size in rows.items()])

    def memory_snapshot(self, mempool_id=None, include_traces: bool = True) -> list[dict]:
        """What lies on all GPUs, each live storage a segment: `memory_history.take_snapshot`. There is one pool."""
        if mempool_id is not None and tuple(mempool_id) != memory_history.POOL:
            raise RuntimeError(NO_POOLS)
        return memory_history.segments()

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """(free, total) bytes of `device`."""
        memory = machine.gpu(device).memory
        return memory.capacity - memory.allocated, memory.capacity

    def empty_cache(self) -> None:
        """Give back what is reserved and no tensor holds, on all GPUs."""
        for gpu in machine.gpus:
            gpu.memory.empty_cache()

    def ipc_collect(self) -> None:
        """Nothing to do: no other process has memory of a simulated GPU."""

    # --- random numbers: each GPU has a generator of its own, which gives the CPU's numbers for the same seed ------

    _initialized = True  # torch.utils.checkpoint keeps the states of the generators only where it reads this
    default_generators = _Generators()

    def manual_seed(self, seed: int) -> None:
        """Seed the generator of the current GPU."""
        machine.gpu(None).generator.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed the generators of all GPUs alike, as `torch.manual_seed` does."""
        for gpu in machine.gpus:
            gpu.generator.manual_seed(seed)

    def seed(self) -> None:
        """Seed the generator of the current GPU with a random number."""
        machine.gpu(None).generator.seed()

    def seed_all(self) -> None:
        """Seed the generators of all GPUs with one random number."""
        self.manual_seed_all(torch.Generator().seed())

    def initial_seed(self) -> int:
        """What the generator of the current GPU was seeded with."""
        return machine.gpu(None).generator.initial_seed()

    def get_rng_state(self, device=None) -> torch.Tensor:
        return machine.gpu(device).generator.get_state()

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [gpu.generator.get_state() for gpu in machine.gpus]

    def set_rng_state(self, new_state: torch.Tensor, device=None) -> None:
        machine.gpu(device).generator.set_state(new_state)

    def set_rng_state_all(self, new_states: Iterable[torch.Tensor]) -> None:
        for gpu, state in zip(machine.gpus, new_states, strict=False):
            gpu.generator.set_state(state)

    in_bad_fork = False  # whether this process was forked from one that had used its GPUs as CUDA's

    def _is_in_bad_fork(self) -> bool:
        return self.in_bad_fork

    # --- what there is not --------------------------------------------------------------------------------------

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What `torch.autocast("simgpu", dtype=...)` may compute in."""
        return [torch.bfloat16, torch.float16]

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Whether the product computes in bfloat16: from (8, 0) on, and in any case where emulation counts."""
        return including_emulation or machine.gpu(None).profile.capability >= (8, 0)

    def _no_raw_memory(self, *args, **kwargs):
        raise RuntimeError(NO_RAW_MEMORY)

    caching_allocator_alloc = caching_allocator_delete = _no_raw_memory
    MemPool = _none_of("MemPool", NO_POOLS)

    @contextmanager
    def use_mem_pool(self, *args, **kwargs):
        raise RuntimeError(NO_POOLS)
        yield


@cache
def _let_names_mean_the_current() -> None:
    """Once, and only where a GPU other than 0 is the current one: it replaces functions of PyTorch's."""
    torch_private.let_names_mean_the_current_device(DEVICE_TYPE, device_module.current_device)


device_module = DeviceModule(f"torch.{DEVICE_TYPE}", "Simulated GPUs, under the names of torch.cuda.")


def _memory_module() -> ModuleType:
    """What PyTorch finds as `torch.simgpu.memory`: the names of `torch.cuda.memory`."""
    module = ModuleType(f"{device_module.__name__}.memory", "Memory of GPUs, under torch.cuda.memory's names.")
    known = [name for name in torch.cuda.memory.__all__ if hasattr(device_module, name)]
    vars(module).update({name: getattr(device_module, name) for name in known} | memory_history.HISTORY)
    return module


def publish() -> None:
    """Let `import torch.simgpu` find what `torch.simgpu` already is, and `torch.accelerator` answer with it."""
    sys.modules[device_module.__name__] = device_module
    vars(device_module)["memory"] = sys.modules[f"{device_module.__name__}.memory"] = _memory_module()
    torch_private.let_accelerator_ask(device_module)
