"""Which devices have I got; two of them, please; wait for one; say what they are.

The environment variable COURSE_DEVICES overrides the choice:

    COURSE_DEVICES=simulated        simulated GPUs, also on a machine with real ones
    COURSE_DEVICES=cuda             real GPUs, or an error where there are too few
    COURSE_DEVICES=cuda:0,cuda:0    exactly these, in this order (the same real GPU may be named twice)
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from typing import Any

import torch

import simgpu
from utils.common.settings import DEVICES


def devices(
    count: int = 2,
    *,
    paced: bool = False,
    compute: bool = True,
    memory: int | None = None,
    quiet: bool = False,
) -> list[torch.device]:
    """`count` devices: real GPUs where there are that many, else simulated ones. Prints which, unless `quiet`.

    `paced`, `compute` and `memory` are for simulated ones; real ones are as they are. `paced`: slow "Instructional"
    GPUs that keep to the wall clock, so that what watches them while they work sees them work. `compute=False`:
    tensors have shapes and no numbers, so that a busy computer keeps to the wall clock, too. `memory`: bytes of each.
    With any of them, a new simulated machine is made, and tensors of the old one go with it.

    Raises ValueError for a count below 1 or a COURSE_DEVICES that cannot be read, RuntimeError where it asks
    for real GPUs that this machine does not have.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"devices({count!r}): ask for a whole number of devices, 1 or more")
    wish = os.environ.get(DEVICES, "").strip()
    real = torch.cuda.device_count()
    if wish == "simulated" or (not wish and real < count):
        chosen = _simulated(count, paced, compute, memory)
    elif wish in ("", "cuda"):
        _require_real(count - 1, f"devices({count})", real)
        chosen = [torch.device("cuda", index) for index in range(count)]
    else:
        chosen = _named(wish, count, real)
    if not quiet:
        print(_one_line(chosen, wish, real))
    return chosen


def is_simulated(device: torch.device | str) -> bool:
    """Whether `device` is one of simgpu's."""
    return torch.device(device).type == "simgpu"


def synchronize(device: torch.device | str) -> None:
    """Wait until `device` has finished everything that was given to it. The CPU is never behind."""
    device = torch.device(device)
    if device.type != "cpu":
        getattr(torch, device.type).synchronize(device)


def wait_for(devices: Iterable[torch.device | str]) -> None:
    """Call `synchronize` for each of `devices`. With none of them it returns at once."""
    for device in devices:
        synchronize(device)


def is_idle(device: torch.device | str) -> bool:
    """Whether `device` has finished everything that was given to its current stream. The CPU always has."""
    device = torch.device(device)
    return device.type == "cpu" or getattr(torch, device.type).current_stream(device).query()


def name_of(device: torch.device | str) -> str:
    """What a device is, as labels say it: the product's name for a real GPU, 'simulated GPU' for a simulated one."""
    device = torch.device(device)
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return "simulated GPU" if is_simulated(device) else f"{device.type.upper()}"


def describe() -> None:
    """Print what this machine has: PyTorch, processor, real GPUs, simulated GPUs."""
    real = [torch.device("cuda", index) for index in range(torch.cuda.device_count())]
    rows = [
        ("PyTorch", torch.__version__),
        ("cpu", f"{platform.machine()}, {torch.get_num_threads()} threads"),
    ]
    for device in real:
        memory = torch.cuda.get_device_properties(device).total_memory
        rows.append((str(device), f"real: {name_of(device)}, {memory / 2**30:.0f} GiB"))
    if not real:
        rows.append(("cuda", "none: PyTorch sees no NVIDIA GPU here"))
    if simgpu.is_enabled():
        rows += [(f"simgpu:{i}", "simulated: its numbers are computed on the CPU") for i in range(_simulated_count())]
    else:
        rows.append(("simgpu", "not switched on yet: devices(2) or simgpu.enable(count=2) does that"))
    width = max(len(name) for name, _ in rows)
    print("\n".join(f"{name:<{width}}  {what}" for name, what in rows))


def _simulated_count() -> int:
    return torch.get_device_module("simgpu").device_count() if simgpu.is_enabled() else 0


def _simulated(count: int, paced: bool = False, compute: bool = True, memory: int | None = None) -> list[torch.device]:
    slow: dict[str, Any] = {"gpu": "Instructional", "link": "instructional", "clock": "paced"} if paced else {}
    # A machine that already has enough stays as it is: another cell may hold tensors on it.
    if slow or not compute or memory is not None or _simulated_count() < count:
        simgpu.enable(count=count, compute=compute, memory=memory, **slow)
    return [torch.device("simgpu", index) for index in range(count)]


def _named(wish: str, count: int, real: int) -> list[torch.device]:
    names = [name.strip() for name in wish.split(",") if name.strip()]
    highest = [int(tail) for kind, _, tail in (n.partition(":") for n in names) if kind == "simgpu" and tail.isdigit()]
    if highest:
        _simulated(max(highest) + 1)
    try:
        chosen = [torch.device(name) for name in names]
        if any(device.index is None and device.type != "cpu" for device in chosen):
            raise RuntimeError
    except RuntimeError:
        raise ValueError(
            f"{DEVICES}={wish!r} cannot be read: write 'simulated', 'cuda', or names such as 'cuda:0,cuda:1'"
        ) from None
    if len(chosen) < count:
        raise ValueError(f"{DEVICES}={wish!r} names {len(chosen)} device(s), and this notebook asks for {count}")
    chosen = chosen[:count]
    for device in chosen:
        if device.type == "cuda":
            _require_real(device.index, f"{DEVICES}={wish}", real)
    return chosen


def _require_real(index: int, asked_by: str, real: int) -> None:
    if index >= real:
        raise RuntimeError(
            f"{asked_by} needs {index + 1} real GPU{'s' if index else ''}, and PyTorch sees {real} on this machine. "
            f"Unset {DEVICES}, or set {DEVICES}=simulated, to use simulated GPUs."
        )


def _one_line(chosen: list[torch.device], wish: str, real: int) -> str:
    names = " and ".join(str(device) for device in chosen) if len(chosen) < 3 else ", ".join(map(str, chosen))
    kinds = {"simulated" if is_simulated(d) else "real" if d.type == "cuda" else d.type for d in chosen}
    why = f"{DEVICES}={wish}" if wish else f"PyTorch sees {real} real GPU{'' if real == 1 else 's'} here"
    twice = ", one GPU under several names" if len(set(chosen)) < len(chosen) else ""
    if kinds == {"real"}:
        what = ", ".join(dict.fromkeys(name_of(device) for device in chosen))
        return f"Using {names}: real ({what}{twice})."
    if kinds == {"simulated"}:
        settings = simgpu.settings()
        clock = ", paced to the wall clock" if settings.clock == "paced" else ""
        numbers = "computed on this machine's CPU" if settings.compute else "shapes only: no numbers are computed"
        return f"Using {names}: simulated{clock}, {numbers} ({why})."
    return f"Using {names}: {' and '.join(sorted(kinds))} ({why}{twice})."
