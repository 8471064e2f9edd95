"""What PyTorch finds as `torch.simgpu`: the names of `torch.cuda`, for simulated GPUs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch

from . import torch_private
from .hardware import DEVICE_TYPE, machine
from .memory import in_units
from .streams import Event, Stream, make_current, stream_of

# NVML's utilisation is the share of its last sample period with a kernel running; the period is 1/6 to 1 s.
SAMPLE_PERIOD = 1 / 6


NO_GRAPHS = (
    "simgpu has no CUDA graphs: its launches are simulated one by one. Call the function itself; "
    "a GPU profile with a smaller `launch` shows what graphs would save."
)


@dataclass(frozen=True)
class DeviceProperties:
    """What `get_device_properties` tells, as far as a simulated GPU has it. `total_memory` in bytes."""

    name: str
    total_memory: int
    multi_processor_count: int
    major: int = 0
    minor: int = 0

    def __repr__(self) -> str:
        return (
            f"_SimgpuDeviceProperties(name='{self.name}', total_memory={self.total_memory // 2**20}MB, "
            f"multi_processor_count={self.multi_processor_count})"
        )


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
        return machine.here.gpu

    def set_device(self, device) -> None:
        """Make `device` the one that `simgpu` without a number means. RuntimeError if there is no such one."""
        machine.here.gpu = machine.gpu(device).index
        machine.chosen = True
        if machine.here.gpu:
            _let_names_mean_the_current()

    @contextmanager
    def device(self, device) -> Iterator[None]:
        """Inside, `device` is the current one. None or a negative number changes nothing."""
        before = machine.here.gpu
        if device is not None and not (isinstance(device, int) and device < 0):
            self.set_device(device)
        try:
            yield
        finally:
            machine.here.gpu = before

    def device_of(self, tensor: torch.Tensor):
        """Inside, the device of `tensor` is the current one, if it is a simulated GPU."""
        return self.device(tensor.device if tensor.device.type == DEVICE_TYPE else None)

    def synchronize(self, device=None) -> None:
        """Wait until `device` has finished everything that it was given."""
        machine.wait_for(machine.gpu(device))

    def get_device_name(self, device=None) -> str:
        """The name of the hardware profile, marked as simulated."""
        return f"{machine.gpu(device).profile.name} (simulated)"

    def get_device_properties(self, device=None) -> DeviceProperties:
        gpu = machine.gpu(device)
        sizes = gpu.memory.capacity, gpu.profile.multiprocessors
        return DeviceProperties(self.get_device_name(device), *sizes, *gpu.profile.capability)

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

    def memory_stats(self, device=None) -> dict[str, int]:
        """The numbers of PyTorch's statistics that a simulated GPU has, in bytes."""
        memory = machine.gpu(device).memory
        return {
            "allocated_bytes.all.current": memory.allocated,
            "allocated_bytes.all.peak": memory.peak,
            "reserved_bytes.all.current": memory.reserved,
            "reserved_bytes.all.peak": memory.reserved_peak,
        }

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

    def manual_seed(self, seed: int) -> None:
        """Seed the generator of the current GPU."""
        machine.gpu(None).generator.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed the generators of all GPUs alike, as `torch.manual_seed` does."""
        for gpu in machine.gpus:
            gpu.generator.manual_seed(seed)

    def seed(self) -> None:
        """Seed the generator of the current GPU with a number that nobody knows."""
        machine.gpu(None).generator.seed()

    def seed_all(self) -> None:
        """Seed the generators of all GPUs with one number that nobody knows."""
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

    def _is_in_bad_fork(self) -> bool:
        return False

    # --- what there is not --------------------------------------------------------------------------------------

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What `torch.autocast("simgpu", dtype=...)` may compute in."""
        return [torch.bfloat16, torch.float16]

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Whether the product computes in bfloat16: from (8, 0) on, and in any case where emulation counts."""
        return including_emulation or machine.gpu(None).profile.capability >= (8, 0)

    def is_current_stream_capturing(self) -> bool:
        return False

    def memory_snapshot(self, *args, **kwargs):
        raise RuntimeError(
            "simgpu has no caching allocator, and so no snapshot of its blocks: memory_stats() has the bytes, and "
            "simgpu.log() what was launched when."
        )

    def _no_graphs(self, *args, **kwargs):
        raise RuntimeError(NO_GRAPHS)

    class CUDAGraph:
        """A class, since code asks whether something is one. There are none."""

        def __init__(self, *args, **kwargs):
            raise RuntimeError(NO_GRAPHS)

    graph = make_graphed_callables = graph_pool_handle = _no_graphs


@cache
def _let_names_mean_the_current() -> None:
    """Once, and only where a GPU other than 0 is the current one: it replaces functions of PyTorch's."""
    torch_private.let_names_mean_the_current_device(DEVICE_TYPE, device_module.current_device)


device_module = DeviceModule(f"torch.{DEVICE_TYPE}", "Simulated GPUs, under the names of torch.cuda.")


def publish() -> None:
    """Let `import torch.simgpu` find what `torch.simgpu` already is, and `torch.accelerator` answer with it."""
    sys.modules[device_module.__name__] = device_module
    torch_private.let_accelerator_ask(device_module)
