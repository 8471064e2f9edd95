"""Samples of NVIDIA GPUs, from NVML by its Python module `pynvml` (package nvidia-ml-py). Imports it when needed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterable
from typing import Any

from utils.observe.monitor.samples import Trouble, counted, device_index

# NVML's error codes, as in nvml.h. The first three say that a call will never work here.
NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH_OF_ARGUMENT = 3, 13, 25
FOR_EVER = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH_OF_ARGUMENT)
NO_PERMISSION, NOT_FOUND, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIBRARY_AND_DRIVER_DIFFER = 4, 6, 9, 12, 18
WHY_NVML_DOES_NOT_START = {
    NO_PERMISSION: "NVML gives this user no permission",
    DRIVER_NOT_LOADED: "the NVIDIA driver is installed, but not loaded",
    LIBRARY_NOT_FOUND: "the NVIDIA driver's library libnvidia-ml.so.1 is not on this machine",
    LIBRARY_AND_DRIVER_DIFFER: "the NVIDIA driver's library and kernel module differ, as after an update: restart",
}
# The member of NVML's value union that holds a sample, by its type.
MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")


def _start_nvml(for_devices: Iterable[str]):
    """The module pynvml, initialised. Raises RuntimeError that says in one line what is missing."""
    try:
        import pynvml
    except ImportError:
        why = "the Python package nvidia-ml-py is not installed"
    else:
        try:
            pynvml.nvmlInit()
            return pynvml
        except pynvml.NVMLError as error:
            why = WHY_NVML_DOES_NOT_START.get(error.value, f"NVML does not start: {error}")
    raise RuntimeError(
        f"GpuMonitor cannot read {', '.join(for_devices)}: {why}. "
        "Simulated devices (simgpu:0) and recordings (GpuMonitor.replay) work without it."
    )


def open_nvml_source(devices: list[str]) -> NvmlSource:
    nvml = _start_nvml(devices)
    try:
        return NvmlSource(_uuids(devices, nvml))
    finally:
        nvml.nvmlShutdown()  # the source has initialised it for itself: NVML counts


def _uuids(devices: list[str], nvml) -> dict[str, str]:
    """The UUID of each device, from torch, which asks CUDA. RuntimeError for a device that does not exist."""
    try:
        import torch

        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
        known = [str(torch.cuda.get_device_properties(index).uuid) for index in range(seen)]
    except (ImportError, AttributeError, RuntimeError):  # no torch, or one that cannot tell
        known = []
    try:
        known = known or visible_uuids(nvml)
    except nvml.NVMLError as error:
        raise RuntimeError(f"GpuMonitor cannot read {', '.join(devices)}: NVML lists no GPUs: {error}") from None
    for device in devices:
        if device_index(device) >= len(known):
            wish = os.environ.get("CUDA_VISIBLE_DEVICES")
            because = "" if wish is None else f" (CUDA_VISIBLE_DEVICES={wish!r})"
            raise RuntimeError(f"GpuMonitor: there is no {device}: this process sees {len(known)} GPU(s){because}")
    return {device: known[device_index(device)] for device in devices}


def visible_uuids(nvml) -> list[str]:
    """UUIDs of the GPUs that CUDA_VISIBLE_DEVICES lets this process see, in its order. `nvml` is pynvml, initialised.

    As CUDA reads it: unset means all; an entry is a number, a UUID or its beginning; the first that fits no GPU, or
    several, ends the list; the same GPU twice empties it. NVML numbers GPUs by PCI bus, CUDA only where
    CUDA_DEVICE_ORDER=PCI_BUS_ID: where GPUs differ, numbers are certain only with that. Raises NVMLError.
    """
    all_uuids = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            all_uuids.append(nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(index)))
        except nvml.NVMLError:
            all_uuids.append("")  # it keeps its number, and it cannot be asked for
    wish = os.environ.get("CUDA_VISIBLE_DEVICES")
    if wish is None:
        return [uuid for uuid in all_uuids if uuid]
    chosen = []
    for entry in map(str.strip, wish.split(",")):
        if entry.startswith("MIG-"):
            fits = [entry]
        elif entry.startswith("GPU-"):
            fits = [uuid for uuid in all_uuids if uuid.startswith(entry)]
        else:
            fits = all_uuids[int(entry) :][:1] if entry.isdecimal() else []
        if len(fits) != 1 or not fits[0]:
            break
        if fits[0] in chosen:
            return []
        chosen += fits
    return chosen


class NvmlSource:
    """Utilization and memory of NVIDIA GPUs by NVML. `uuids` has the UUID of each device; torch is not needed.

    A UUID may lack its `GPU-` or `MIG-`, as torch writes it. A call that fails makes one value None and leaves a
    line in `trouble`. RuntimeError where NVML does not start.
    """

    virtual = False

    def __init__(self, uuids: dict[str, str]):
        self._uuids = uuids
        self.trouble = Trouble()
        self._nvml: Any = None
        self._start()

    def _start(self) -> None:
        if self._nvml is None:
            self._nvml = _start_nvml(self._uuids)
        self._handles = {device: self._handle(device) for device in self._uuids}
        self._last_seen = dict.fromkeys(self._uuids, 0)  # CPU time stamps of NVML, microseconds
        self._not_again = set()  # (call, device) that will never work
        names = [self._name(device) for device in self._uuids]
        self.label = f"measured by NVML on {counted(names)}"

    def begin(self) -> None:
        """The run starts now: what NVML's buffer holds of the time before, up to 20 s, is not part of it."""
        self.trouble = Trouble()
        self._start()
        for device in self._uuids:
            self._new_samples(device)

    def end(self) -> None:
        """Give NVML back."""
        if self._nvml is not None:
            self._attempt("nvmlShutdown", "NVML", self._nvml.nvmlShutdown)
            self._nvml = None

    def read(self, device: str) -> tuple[float | None, int | None, int | None]:
        """Utilization in percent, memory used and total in bytes, now; None for what cannot be read."""
        if self._handles[device] is None:
            return None, None, None
        return self._utilization(device), *self._memory(device)

    def _handle(self, device: str):
        uuid = self._uuids[device]
        candidates = [uuid] if uuid.startswith(("GPU-", "MIG-")) else [f"GPU-{uuid}", f"MIG-{uuid}"]
        for candidate in candidates:
            try:
                return self._nvml.nvmlDeviceGetHandleByUUID(candidate)
            except self._nvml.NVMLError as error:
                failure = error
                if error.value != NOT_FOUND:
                    break
        self.trouble.add("nvmlDeviceGetHandleByUUID", device, failure)
        return None

    def _name(self, device: str) -> str:
        handle = self._handles[device]
        if handle is None:
            return "a GPU that NVML does not find"
        return self._attempt("nvmlDeviceGetName", device, self._nvml.nvmlDeviceGetName, handle) or "an unnamed GPU"

    def _attempt(self, call: str, device: str, func: Callable, *args):
        """What NVML answers, or None. A call that a device or this NVML does not have is not made again."""
        if (call, device) in self._not_again:
            return None
        try:
            return func(*args)
        except Exception as error:
            code = getattr(error, "value", None)
            # For samples "not found" means that there is none since the last time.
            if (call, code) != ("nvmlDeviceGetSamples", NOT_FOUND):
                self.trouble.add(call, device, error)
            if code in FOR_EVER:
                self._not_again.add((call, device))
            return None

    def _utilization(self, device: str) -> float | None:
        if samples := self._new_samples(device):
            return statistics.fmean(samples)
        rates = self._nvml.nvmlDeviceGetUtilizationRates
        last_period = self._attempt("nvmlDeviceGetUtilizationRates", device, rates, self._handles[device])
        return None if last_period is None else float(last_period.gpu)

    def _new_samples(self, device: str) -> list[float]:
        """Percents that NVML took since the last time, none where it cannot or has none yet."""
        if self._handles[device] is None:
            return []
        return self._attempt("nvmlDeviceGetSamples", device, self._ask_for_samples, device) or []

    def _ask_for_samples(self, device: str) -> list[float]:
        since = self._last_seen[device]
        value_type, samples = self._nvml.nvmlDeviceGetSamples(
            self._handles[device], self._nvml.NVML_GPU_UTILIZATION_SAMPLES, since
        )
        # Entries that were never filled have time 0.
        new = [sample for sample in samples if sample.timeStamp > since]
        self._last_seen[device] = max((sample.timeStamp for sample in new), default=since)
        values = [float(getattr(sample.sampleValue, MEMBERS[value_type])) for sample in new]
        return [value for value in values if 0 <= value <= 100]

    def _memory(self, device: str) -> tuple[int | None, int | None]:
        """Used and total. Version 2 counts apart what the driver reserves; version 1 counts it as used."""
        ask, handle = self._nvml.nvmlDeviceGetMemoryInfo, self._handles[device]
        version = getattr(self._nvml, "nvmlMemory_v2", 0x02000028)
        memory = self._attempt("nvmlDeviceGetMemoryInfo_v2", device, ask, handle, version)
        if memory is None:
            memory = self._attempt("nvmlDeviceGetMemoryInfo", device, ask, handle)
        return (None, None) if memory is None else (int(memory.used), int(memory.total))
