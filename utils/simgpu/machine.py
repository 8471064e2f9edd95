"""The simulated machine: how many GPUs it has, and what each is called."""

from __future__ import annotations

from dataclasses import dataclass

import torch

DEVICE_TYPE = "simgpu"
MOST_GPUS = 64


class Gpu:
    """One simulated GPU. Tensors hold a reference to the one they live on.

    `retired` turns true when the machine is reconfigured: what lived on it is refused from then on.
    """

    __slots__ = ("device", "index", "retired")

    def __init__(self, index: int):
        self.index = index
        self.device = torch.device(DEVICE_TYPE, index)
        self.retired = False

    def __repr__(self) -> str:
        return str(self.device)


@dataclass(frozen=True)
class Settings:
    """What `enable` was asked for. Equal settings are the same machine."""

    count: int = 2


class Machine:
    """The simulated GPUs of this process, and which of them is current."""

    def __init__(self):
        self.settings: Settings | None = None
        self.gpus: tuple[Gpu, ...] = ()
        self.current = 0

    def configure(self, settings: Settings) -> None:
        """Become the machine that `settings` describe; the same settings again change nothing."""
        if settings == self.settings:
            return
        for gpu in self.gpus:
            gpu.retired = True
        self.settings = settings
        self.gpus = tuple(Gpu(index) for index in range(settings.count))
        self.current = 0

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


machine = Machine()
