"""The drawn figures of lessons 08, 09, 11, 12 and 19, from what they show: `python tools/draw_figures.py`.

It writes notebooks/figures/bubble.svg, two_streams.svg, ring.svg and choose.svg. The same code gives the same
bytes, which a test compares.
"""

import io
import re
import sys
from html import escape
from itertools import count
from pathlib import Path

import matplotlib as mpl
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Polygon, Rectangle
from torch import nn

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import simgpu  # noqa: E402
from simgpu.profiles import LinkProfile  # noqa: E402
from utils.observe import plots  # noqa: E402
from utils.observe.trace import numbered, record  # noqa: E402
from utils.schedules.of_layers import LayerCost, least_idle, schedule  # noqa: E402

FIGURES = ROOT / "notebooks" / "figures"
PARTS, MICRO_BATCHES = 4, 4
FORWARD, BACKWARD = 1.0, 2.0
HEIGHT = 0.8


def svg(figure, words: str) -> str:
    """The figure as SVG that is the same each time, with a text for who cannot see it. Its ground is white."""
    file = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "course", "svg.fonttype": "none", "font.family": "DejaVu Sans"}):
        figure.savefig(file, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return re.sub(r"<svg ", f'<svg role="img" aria-label="{escape(words)}" ', file.getvalue(), count=1)


def box(axes, row: float, start: float, end: float, text: str, style: dict) -> None:
    axes.broken_barh([(start, end - start)], (row - HEIGHT / 2, HEIGHT), edgecolor="white", linewidth=1, **style)
    label = axes.text((start + end) / 2, row, text, ha="center", va="center", fontsize=9)
    label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 1, "alpha": 0.85})


def bubble() -> str:
    """GPipe's schedule of equal parts with free copies, and where nothing is done in it."""
    free = LinkProfile("free", float("inf"), "for a picture", latency=0.0)
    line = schedule([LayerCost(FORWARD, BACKWARD, 0)] * PARTS, range(1, PARTS), MICRO_BATCHES, free)
    source = f"computed by utils.schedules.of_layers: {PARTS} equal parts, {MICRO_BATCHES} micro-batches, free copies"
    figure, axes = plots.labelled_axes(3.2, source)
    corners = {"filling": [], "turning": [], "emptying": []}
    for row, device in enumerate(line.devices):
        own = [event for event in line.events if event.is_kernel and event.device == device]
        for event in own:
            box(axes, row, event.start, event.end, event.label, plots.PHASE_STYLE[event.phase])
        forward_end = max(event.end for event in own if event.phase == "forward")
        backward_start = min(event.start for event in own if event.phase == "backward")
        top, bottom = row - 0.5, row + 0.5
        for name, start, end in (
            ("filling", 0.0, own[0].start),
            ("turning", forward_end, backward_start),
            ("emptying", max(event.end for event in own), line.span),
        ):
            corners[name].append(((start, top), (start, bottom), (end, top), (end, bottom)))
    for name, steps in corners.items():
        steps = [step for step in steps if step[2][0] > step[0][0]]
        left = [corner for step in steps for corner in step[:2]]
        right = [corner for step in reversed(steps) for corner in reversed(step[2:])]
        axes.add_patch(
            Polygon(left + right, facecolor="white", hatch="..", edgecolor=plots.GREY, linewidth=1.5, zorder=0)
        )
        middle = max(steps, key=lambda step: step[2][0] - step[0][0])
        text = axes.text((middle[0][0] + middle[2][0]) / 2, (middle[0][1] + middle[1][1]) / 2, name, fontsize=9)
        text.set(ha="center", va="center", bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
    axes.set_yticks(range(PARTS), line.devices)
    axes.set_ylim(PARTS - 0.4, -0.6)
    axes.set_xlim(0, line.span)
    axes.set_xticks(range(0, int(line.span) + 1, 3))
    axes.set_xlabel("turns (a backward pass takes as long as two forward passes)", fontsize=9, color=plots.INK)
    patches = [Patch(label=name, edgecolor="white", **plots.PHASE_STYLE[name]) for name in ("forward", "backward")]
    patches.append(Patch(label="bubble", facecolor="white", hatch="..", edgecolor=plots.GREY))
    figure.legend(handles=patches, loc="outside upper right", ncols=3, fontsize=9, frameon=False)
    assert abs(line.bubble_fraction() - least_idle(MICRO_BATCHES, PARTS)) < 1e-9
    words = (
        f"{PARTS} devices, one line each, and {MICRO_BATCHES} micro-batches. Each device starts one turn after the one "
        "above it and, in the backward pass, one turn before it. What stays empty are triangles: filling, turning and "
        f"emptying, together {least_idle(MICRO_BATCHES, PARTS):.0%} of the time of all devices."
    )
    return svg(figure, words)


def recorded(way: str):
    """The forward pass of four micro-batches on two simulated T4, with copies on the streams that compute or beside."""
    simgpu.enable(count=2, gpu="T4", link="pcie3", compute=False)
    device0, device1 = torch.device("simgpu:0"), torch.device("simgpu:1")
    gpu = torch.get_device_module(device0)
    part0, part1 = nn.Linear(2048, 2048, device=device0), nn.Linear(2048, 2048, device=device1)
    giving, taking = gpu.Stream(device0), gpu.Stream(device1)
    x = torch.randn(4 * 1024, 2048).to(device0)
    with torch.no_grad(), record(device0, device1) as timeline, numbered(part0, part1):
        for rows in x.split(1024):
            hidden = part0(rows)
            if way == "one":
                arrived = hidden.to(device1)
            else:
                giving.wait_stream(gpu.current_stream(device0))
                with gpu.stream(giving), gpu.stream(taking):
                    arrived = hidden.to(device1, non_blocking=True)
                gpu.current_stream(device1).wait_stream(taking)
            part1(arrived)
    return timeline


def lanes(axes, timeline, rows: dict) -> list:
    """Draws the events of a timeline on lanes, and returns each copy as (start, end)."""
    kernels = {device: count() for device in timeline.devices}
    copies = []
    for event in sorted(timeline.events, key=lambda e: e.start):
        start, end = ((moment - timeline.begin) * 1e3 for moment in (event.start, event.end))
        if event.is_kernel:
            number = next(kernels[event.device])
            box(axes, rows[event.device, "computes"], start, end, str(number), plots.PHASE_STYLE["forward"])
        else:
            for row in {rows[event.device, "copies"], rows[event.other, "copies"]}:
                box(axes, row, start, end, str(len(copies)), plots.COPY_STYLE)
            copies.append((start, end))
    return copies


def two_streams() -> str:
    """The same forward pass with one stream a device and with two."""
    one, two = recorded("one"), recorded("two")
    first, second = one.devices
    figure = Figure(figsize=(plots.WIDTH, 4.2), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 4])
    lanes(
        above, one, {(device, what): row for row, device in enumerate(one.devices) for what in ("computes", "copies")}
    )
    rows = {(first, "computes"): 0, (first, "copies"): 1, (second, "copies"): 2, (second, "computes"): 3}
    for start, end in lanes(below, two, rows):
        for moment, since, until in ((start, 0, 1), (end, 2, 3)):
            below.annotate("", (moment, until - 0.4), (moment, since + 0.4), arrowprops={"arrowstyle": "->"}, zorder=5)
    for axes, names, title in (
        (above, ["device0", "device1"], "one stream a device: during a copy neither computes"),
        (below, ["device0 computes", "device0 copies", "device1 copies", "device1 computes"], "two streams a device"),
    ):
        axes.set_title(title, loc="left", fontsize=10, color=plots.INK)
        axes.set_yticks(range(len(names)), names, fontsize=9)
        axes.set_ylim(len(names) - 0.5, -0.5)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    below.set_xlabel("ms", fontsize=9, color=plots.INK)
    figure.supxlabel(f"recorded; {one.source}", fontsize=8, color=plots.INK, x=0.01, ha="left")
    patches = [Patch(label="computes", edgecolor="white", **plots.PHASE_STYLE["forward"])]
    patches.append(Patch(label="copy", edgecolor="white", **plots.COPY_STYLE))
    figure.legend(handles=patches, loc="outside upper right", ncols=2, fontsize=9, frameon=False)
    words = (
        "The forward pass of four micro-batches, recorded twice. Above, with one stream a device, each copy takes its "
        f"turn on both devices: {one.span * 1e3:.1f} ms. Below, with a stream for copies on each device, a copy is on "
        f"its way while both devices compute: {two.span * 1e3:.1f} ms. Arrows say what waits: a copy for the part "
        "that made what it copies, and the next part for the copy."
    )
    return svg(figure, words)


def ring_states(devices: int):
    """Whose numbers are in each piece of each device, before a ring's first step and after each: sets, by device."""
    held = [[{device} for _ in range(devices)] for device in range(devices)]
    yield held
    for step in range(2 * (devices - 1)):
        before = [list(pieces) for pieces in held]
        held = [list(pieces) for pieces in held]
        for device in range(devices):
            there, piece = (device + 1) % devices, (device - step) % devices
            arrived = before[device][piece]
            held[there][piece] = before[there][piece] | arrived if step < devices - 1 else arrived
        yield held


def ring() -> str:
    """A ring of four ranks: whose gradients are in each piece, before the first step and after each."""
    devices = 4
    figure = Figure(figsize=(plots.WIDTH, 2.4), layout="constrained")
    for step, (axes, held) in enumerate(zip(figure.subplots(1, 2 * devices - 1), ring_states(devices), strict=True)):
        for device, pieces in enumerate(held):
            for piece, whose in enumerate(pieces):
                shade = plots.PHASE_STYLE["forward"]["facecolor"]
                axes.add_patch(Rectangle((piece, device), 0.94, 0.9, facecolor=shade, alpha=0.12 + 0.2 * len(whose)))
                text = "all" if len(whose) == devices else "".join(map(str, sorted(whose)))
                ink = "white" if text == "all" else "black"
                axes.text(piece + 0.47, device + 0.45, text, ha="center", va="center", fontsize=7, color=ink)
        axes.set_title("before" if step == 0 else f"step {step}", fontsize=9, color=plots.INK)
        axes.set(xlim=(0, devices), ylim=(devices, 0), xticks=[], yticks=[])
        axes.set_frame_on(False)
        if step == 0:
            axes.set_yticks([row + 0.45 for row in range(devices)], [f"rank {row}" for row in range(devices)])
            axes.tick_params(length=0, labelsize=8)
    words = (
        f"A ring of {devices} ranks, each with gradients in {devices} pieces. In each step each rank sends one piece "
        f"to the next rank. In the first {devices - 1} steps the receiver adds it to its own, until each rank has one "
        f"piece of the sum. In the last {devices - 1} steps the sums go round, until all ranks have all."
    )
    return svg(figure, words)


QUESTIONS = [
    ("Does the model only generate?", "stages with room for\nthe KV cache, large batches", "lesson 14"),
    ("Is one GPU enough?", "use one, and measure it", "lessons 04, 05"),
    ("Does training fit on one GPU,\nand is it too slow?", "data parallelism: DDP", "lesson 11"),
    (
        "Do weights and gradients fit,\nand the optimizer state not?",
        "data parallelism, with\nsharded state: ZeRO-1",
        "lesson 12",
    ),
    (
        "Do shards of everything fit,\nand one whole layer?",
        "FSDP, as long as its\nall-gathers stay hidden",
        "lesson 12",
    ),
    (
        "Is one layer too large, or are\nthere too few samples to split?",
        "tensor parallelism,\nwithin a node",
        "lesson 12",
    ),
    (
        "Are all-gathers between nodes\nexposed, or is it still too large?",
        "stages of a pipeline,\nbetween nodes",
        "lessons 01, 06 to 10",
    ),
    (
        "Is one sequence too long\nfor one GPU's memory?",
        "context parallelism: a ring\nof keys and values",
        "lesson 16",
    ),
    (
        "Does each token need only\na few of many experts?",
        "expert parallelism, all-to-all\nwithin a node",
        "lesson 17",
    ),
    (
        "More than one node, or\nseveral of these at once?",
        "plan it, then measure\nwhat the choice depends on",
        "lesson 13",
    ),
]


def choose() -> str:
    """Which way for which model and machine: a question, its answer, and the lesson that has it."""
    figure = Figure(figsize=(plots.WIDTH, 8.4), layout="constrained")
    axes = figure.subplots()
    style = {"ha": "center", "va": "center", "fontsize": 9}
    for row, (question, answer, lesson) in enumerate(QUESTIONS):
        axes.text(0, row, question, bbox={"boxstyle": "round,pad=0.4", "facecolor": "white"}, **style)
        shade = {"boxstyle": "square,pad=0.4", "facecolor": "#D6E6F2", "edgecolor": plots.INK}
        axes.text(1.35, row, answer, bbox=shade, **style)
        axes.text(2.2, row, lesson, color=plots.INK, **style)
        axes.annotate("", (0.98, row), (0.52, row), arrowprops={"arrowstyle": "->"})
        axes.text(0.75, row - 0.14, "yes", fontsize=8, ha="center")
        if row:
            axes.annotate("", (0, row - 0.3), (0, row - 0.7), arrowprops={"arrowstyle": "->"})
            axes.text(0.05, row - 0.45, "no, or not only", fontsize=8)
    axes.set(xlim=(-0.6, 2.6), ylim=(len(QUESTIONS) - 0.5, -0.5))
    axes.set_axis_off()
    steps = "; ".join(f"{' '.join(q.split())} If so, {' '.join(a.split())} ({lesson})" for q, a, lesson in QUESTIONS)
    return svg(figure, f"A decision diagram, read from above. {steps}.")


FIGURES_BY_NAME = {"bubble.svg": bubble, "two_streams.svg": two_streams, "ring.svg": ring, "choose.svg": choose}


def main() -> None:
    for name, draw in FIGURES_BY_NAME.items():
        (FIGURES / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
