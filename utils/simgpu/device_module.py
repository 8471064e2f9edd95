"""What PyTorch finds as `torch.simgpu`: the names of `torch.cuda`, for simulated GPUs."""

from __future__ import annotations

import sys
from types import ModuleType

import torch

from .machine import DEVICE_TYPE, machine


class DeviceModule(ModuleType):
    """`torch.simgpu`. Device arguments are a torch.device, a name, a number, or None for the current one."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def device_count(self) -> int:
        return len(machine.gpus)

    def current_device(self) -> int:
        return machine.current

    def set_device(self, device) -> None:
        """Make `device` the one that `simgpu` without a number means. RuntimeError if there is no such one."""
        machine.current = machine.gpu(device).index

    def synchronize(self, device=None) -> None:
        """Wait until `device` has finished everything that it was given."""
        machine.wait_for(machine.gpu(device))

    def get_device_name(self, device=None) -> str:
        """The name of the hardware profile, marked as simulated."""
        return f"{machine.gpu(device).profile.name} (simulated)"

    def memory_allocated(self, device=None) -> int:
        """Bytes that tensors hold on `device`."""
        return machine.gpu(device).memory.allocated

    def max_memory_allocated(self, device=None) -> int:
        """The most bytes that tensors held on `device`, since the start or `reset_peak_memory_stats`."""
        return machine.gpu(device).memory.peak

    def reset_peak_memory_stats(self, device=None) -> None:
        memory = machine.gpu(device).memory
        memory.peak = memory.allocated

    def mem_get_info(self, device=None) -> tuple[int, int]:
        """(free, total) bytes of `device`."""
        memory = machine.gpu(device).memory
        return memory.capacity - memory.allocated, memory.capacity

    def empty_cache(self) -> None:
        """Nothing is cached: memory is free as soon as its last tensor goes."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        """What `torch.autocast("simgpu", dtype=...)` may compute in."""
        return [torch.bfloat16, torch.float16]

    # PyTorch asks a device type for the next three when it seeds generators. Simulated GPUs draw from the
    # CPU's generator, so that a seed gives the numbers that it gives on the CPU.
    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        return None


device_module = DeviceModule(f"torch.{DEVICE_TYPE}", "Simulated GPUs, under the names of torch.cuda.")


def publish() -> None:
    """Let `import torch.simgpu` find what `torch.simgpu` already is."""
    sys.modules[device_module.__name__] = device_module
