"""The picture of what the memory of each device was for, after each operator (`utils.observe.memory`)."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
from matplotlib.gridspec import GridSpec
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from simgpu import in_units
from utils.observe.plots import BLUE, GREEN, GREY, INK, ORANGE, PURPLE, SKY, Picture, labelled_axes

BEFORE, TEMPORARY = "from before", "temporary"
STYLE: dict[str, dict[str, Any]] = {
    BEFORE: {"facecolor": GREY, "hatch": "--"},
    "weights": {"facecolor": BLUE, "hatch": ""},
    "gradients": {"facecolor": ORANGE, "hatch": "///"},
    "optimizer state": {"facecolor": SKY, "hatch": "..."},
    "activations": {"facecolor": GREEN, "hatch": "xxx"},
    TEMPORARY: {"facecolor": PURPLE, "hatch": "\\\\\\"},
}
KINDS = tuple(STYLE)
FULLEST: dict[str, Any] = {"color": INK, "linewidth": 1, "linestyle": ":"}
MIB = 2**20


def draw_memory(memory, title: str | None = None) -> Picture:
    """What each device of a `MemoryUse` held after each operator, one kind upon the other."""
    count = len(memory.devices)
    figure, first = labelled_axes(1.2 + 1.7 * count, memory.source)
    if title:  # higher than in other pictures: below it are the names of the phases
        first.set_title(title, loc="left", fontsize=11, color=INK, pad=16)
    grid = GridSpec(count, 1, figure)
    first.set_subplotspec(grid[0])
    rows = [first] + [figure.add_subplot(grid[row], sharex=first, sharey=first) for row in range(1, count)]
    for axes, device in zip(rows, memory.devices, strict=True):
        _draw_device(axes, memory, device)
    _name_phases(first, memory.phases)
    rows[-1].set_xlabel("operators, in the order in which the host started them", fontsize=9, color=INK)
    patches = [Patch(label=kind, edgecolor="white", **style) for kind, style in STYLE.items()]
    patches.append(Line2D([], [], label="fullest", **FULLEST))
    figure.legend(
        handles=patches, loc="outside upper right", ncols=len(patches), fontsize=8, columnspacing=1.4, frameon=False
    )
    summary = f"{' '.join(memory_in_words(memory, device) for device in memory.devices)} ({memory.source})"
    return Picture(figure, f"Memory by what it is for, after each operator. {summary}", summary)


def memory_in_words(memory, device: torch.device) -> str:
    """When a device was fullest, and with what."""
    at, parts = memory.fullest(device), memory.peak(device)
    said = ", ".join(f"{kind} {in_units(size)}" for kind, size in parts.items() if size)
    place = f"after operator {at} of {len(memory.phases) - 2}, in {memory.phases[at]}"
    return f"{device} is fullest {place}, with {in_units(sum(parts.values()))}: {said}."


def _draw_device(axes, memory, device: torch.device) -> None:
    below = [0.0] * len(memory.phases)
    for kind, sizes in memory.over_time(device).items():
        above = [under + size / MIB for under, size in zip(below, sizes, strict=True)]
        axes.fill_between(range(len(above)), below, above, step="post", edgecolor="white", linewidth=0, **STYLE[kind])
        below = above
    axes.axvline(memory.fullest(device), **FULLEST)
    for begin, _, _ in _stretches(memory.phases)[1:]:
        axes.axvline(begin, color=INK, linewidth=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    axes.set_ylabel(f"{device}, MiB", fontsize=9, color=INK)
    axes.margins(x=0)


def _name_phases(axes, phases: list[str]) -> None:
    """Above each phase its name, where there is room for it."""
    for begin, end, phase in _stretches(phases):
        if end - begin > len(phases) / 10:
            middle = (begin + end) / 2
            axes.text(middle, 0.98, phase, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)


def _stretches(phases: list[str]) -> list[tuple[int, int, str]]:
    """(begin, end, phase) of the operators in one phase, one after another."""
    found, begin = [], 1
    for phase, operators in groupby(phases[1:-1]):
        end = begin + len(list(operators))
        found.append((begin, end, phase))
        begin = end
    return found
