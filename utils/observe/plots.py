"""Pictures of timelines, utilization, memory, sweeps and comparisons (matplotlib).

Each function gives a `Picture`: shown in a notebook it is a PNG with an alternative text, and one line below that says
the same in words. The source ("measured on ...", "simulated: ...") is always part of the picture. Colours are Okabe
and Ito's, told apart without colour too: by hatch, line style or marker. The ground is white, in dark themes as well.
"""

from __future__ import annotations

import base64
import io
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, MaxNLocator

from utils.observe import intervals

# Okabe and Ito, "Color universal design" (2008).
BLUE, ORANGE, GREEN, PURPLE, SKY, RED = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00"
GREY, INK = "#8C8C8C", "#222222"
PHASE_STYLE: dict[str, dict[str, Any]] = {
    "forward": {"facecolor": BLUE, "hatch": ""},
    "backward": {"facecolor": ORANGE, "hatch": "///"},
    "backward, inputs (I)": {"facecolor": SKY, "hatch": "\\\\"},
    "backward, weights (W)": {"facecolor": GREEN, "hatch": "|||"},
    "averaging": {"facecolor": RED, "hatch": "+++"},
    "optimizer": {"facecolor": GREY, "hatch": "..."},
}
# So end the names of the halves of a backward pass that utils.schedules plays.
HALVES = {"for its inputs": "backward, inputs (I)", "for its weights": "backward, weights (W)"}
COPY_STYLE: dict[str, Any] = {"facecolor": GREEN, "hatch": "xxx"}
TALK_STYLE = {"facecolor": PURPLE, "hatch": "\\\\\\"}
WAIT_STYLE = {"facecolor": "#EBD3E0", "hatch": ""}
# Those that FSDP is made of are told apart; every other collective or message is "communication".
COLLECTIVES = {
    "all_gather": ("all-gather", {"facecolor": SKY, "hatch": "oo"}),
    "reduce_scatter": ("reduce-scatter", {"facecolor": RED, "hatch": "---"}),
}
LEGEND = (*PHASE_STYLE, "copy", "all-gather", "reduce-scatter", "communication", "waits for a rank")
LINES = [
    (BLUE, "-", "o"),
    (RED, "--", "s"),
    (GREEN, "-.", "^"),
    (PURPLE, ":", "D"),
    (ORANGE, "-", "v"),
    (SKY, "--", "P"),
]
WIDTH, DPI, QUICK_DPI = 8.0, 160, 110
GIB = 2**30
COLUMNS = 95  # of text under a picture: JupyterLab wraps longer lines, and does so within words


@dataclass
class Picture:
    """A figure, its alternative text, and one line of summary."""

    figure: Figure
    alt: str
    summary: str
    dpi: int = DPI

    def png(self) -> bytes:
        file = io.BytesIO()
        self.figure.savefig(file, format="png", dpi=self.dpi, facecolor="white")
        return file.getvalue()

    def save(self, path) -> None:
        """Write the picture; the ending of the name chooses the format."""
        self.figure.savefig(path, dpi=self.dpi, facecolor="white")

    def _repr_mimebundle_(self, include=None, exclude=None):
        width = round(self.figure.get_figwidth() * 96)
        data = {"image/png": base64.b64encode(self.png()).decode(), "text/plain": self.alt}
        return data, {"image/png": {"alt": self.alt, "width": width}}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        data, metadata = self._repr_mimebundle_()
        display(data, metadata=metadata, raw=True)
        print(textwrap.fill(self.summary, COLUMNS, break_long_words=False, break_on_hyphens=False))


def labelled_axes(height: float, source: str, title: str | None = None, layout: str | None = "constrained"):
    """A figure and its axes in the style of all of them, with the source of what is shown below."""
    figure = Figure(figsize=(WIDTH, height), layout=layout)
    axes = figure.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(colors=INK, labelsize=9)
    if title:
        axes.set_title(title, loc="left", fontsize=11, color=INK)
    figure.supxlabel(source, fontsize=8, color=INK, x=0.01, ha="left")
    return figure, axes


def _inches_in_legend(patch: Patch) -> float:
    """About what a patch and its label take in 9 points: letters of 0.075 inches, the patch and the space around it."""
    return 0.075 * len(str(patch.get_label())) + 0.62


def timeline(
    recorded, title: str | None = None, *, numbers: bool = True, quick: bool = False, until: float | None = None
) -> Picture:
    """The lanes of a `Timeline`, one a device: kernels by phase, copies on a narrow strip, the idle share at the end.

    `until` is the end of the axis in seconds, so that two timelines can be compared; the end of this one if None.
    `numbers` writes the micro-batch on each piece that has one and is wide enough. `quick` is for a picture that
    follows a slider: a fixed layout, and fewer pixels.
    """
    devices = recorded.devices
    figure, axes = labelled_axes(1.25 + 0.75 * len(devices), recorded.source, title, None if quick else "constrained")
    if quick:
        inches = figure.get_figheight()
        left = min(0.3, 0.025 + 0.01 * max(map(len, devices), default=0))
        figure.subplots_adjust(left, 0.62 / inches, 0.99, 1 - (0.55 if title else 0.35) / inches)
    span = recorded.span or 1.0
    end = max(until or 0.0, span)
    unit, scale = _unit(end)
    seen, meetings = {}, recorded.meetings()
    for row, device in enumerate(devices):
        axes.barh(row, span * scale, height=0.62, color="#F0F0F0")
        by_phase = {}
        unmarked_first = sorted(_pieces(recorded, device).items(), key=lambda piece: piece[0][1])
        for (phase, label), times in unmarked_first:
            bars = [((start - recorded.begin) * scale, (end - start) * scale) for start, end in times]
            by_phase.setdefault(phase, []).extend(bars)
            for left, width in bars if numbers and label else ():
                if width > end * scale / 45:
                    text = axes.text(left + width / 2, row - 0.085, label, ha="center", va="center", fontsize=8)
                    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85})
        for phase, bars in by_phase.items():
            seen[phase] = PHASE_STYLE[phase]
            _draw_pieces(axes, bars, (row - 0.31, 0.45), end * scale, 0.4, seen[phase])
        copies = _apart(recorded, device)
        if copies:
            seen["copy"] = COPY_STYLE
            bars = [((start - recorded.begin) * scale, (end - start) * scale) for start, end in copies]
            _draw_pieces(axes, bars, (row + 0.17, 0.14), end * scale, 1.2, COPY_STYLE)
        for (name, label), (style, times) in _talks(meetings, device, recorded.span).items():
            seen[name] = style
            bars = [((start - recorded.begin) * scale, (end_ - start) * scale) for start, end_ in times]
            _draw_pieces(axes, bars, (row + 0.17, 0.14), end * scale, 0.4, style)
            for left, width in bars if numbers and label else ():
                if width > end * scale / 45:
                    text = axes.text(left + width / 2, row + 0.245, label, ha="center", va="center", fontsize=7)
                    text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5, "alpha": 0.85})
        idle = recorded.idle(device) / span
        axes.text((span + end / 100) * scale, row, f"idle {idle:.0%}", va="center", fontsize=9, color=INK)
    axes.set_yticks(range(len(devices)), devices)
    axes.set_ylim(len(devices) - 0.5, -0.5)
    axes.set_xlim(0, end * scale * 1.1)
    axes.set_xlabel(unit, fontsize=9, color=INK)
    patches = [Patch(label=name, edgecolor="white", **seen[name]) for name in LEGEND if name in seen]
    where = "upper right" if quick else "outside upper right"
    rows = 1 if quick else math.ceil(sum(map(_inches_in_legend, patches)) / WIDTH)
    columns = math.ceil(len(patches) / max(rows, 1))
    figure.legend(handles=patches, loc=where, ncols=max(columns, 1), fontsize=9, frameon=False)
    words, summary = _timeline_words(recorded), _timeline_summary(recorded)
    return Picture(figure, words, summary, dpi=QUICK_DPI if quick else DPI)


def _draw_pieces(axes, bars, where: tuple[float, float], end: float, edge: float, style: dict) -> None:
    """Each piece wide enough to be seen, with a white edge (in points) only where that leaves most of it.

    The hatch of a piece without an edge would be drawn in the colour of its edge: so it has none.
    """
    narrow = [(left, max(width, end / 500)) for left, width in bars if width < end / 120]
    wide = [(left, width) for left, width in bars if width >= end / 120]
    if narrow:
        axes.broken_barh(narrow, where, facecolor=style["facecolor"], linewidth=0)
    if wide:
        axes.broken_barh(wide, where, edgecolor="white", linewidth=edge, **style)


def _close(times, span: float):
    """Pieces with no visible gap between them as one."""
    gap = span / 1500
    closed = []
    for start, end in times:
        if closed and start - closed[-1][1] < gap:
            closed[-1] = closed[-1][0], end
        else:
            closed.append((start, end))
    return closed


def _apart(recorded, device):
    """When each copy to or from a device was on its way; those too short to be seen alone as one."""
    copies = sorted((e.start, e.end) for e in recorded.events if e.is_copy and device in (e.device, e.other))
    short = [(start, end) for start, end in copies if end - start < recorded.span / 100]
    seen = [(start, end) for start, end in copies if end - start >= recorded.span / 100]
    return seen + _close(intervals.union(short), recorded.span)


def _talks(meetings, device, span: float):
    """The style and times of a device's part in communication, and of its waiting there for others, by name and
    label."""
    found = {}
    for meeting in (meeting for meeting in meetings if device in meeting.waited):
        name, style = COLLECTIVES.get(meeting.name, ("communication", TALK_STYLE))
        found.setdefault((name, meeting.label), (style, []))[1].append((meeting.start, meeting.end))
        if (waited := meeting.waited[device]) > 0:
            waits = found.setdefault(("waits for a rank", ""), (WAIT_STYLE, []))[1]
            waits.append((meeting.start - waited, meeting.start))
    return {key: (style, _close(intervals.union(times), span)) for key, (style, times) in found.items()}


def _pieces(recorded, device):
    """When each phase of each micro-batch ran on a device."""
    times: dict[tuple[str, str], list] = {}
    for event in recorded.events:
        if event.is_kernel and event.device == device:
            phase = HALVES.get(event.name.rpartition(", ")[2], event.phase)
            times.setdefault((phase, event.label), []).append((event.start, event.end))
    return {key: _close(intervals.union(value), recorded.span) for key, value in times.items()}


def _timeline_words(recorded) -> str:
    parts, (unit, scale) = [], _unit(recorded.span)

    def told(seconds: float) -> str:
        return _three(seconds * scale)

    for device in recorded.devices:
        pieces = sorted((s, e, phase) for (phase, _), times in _pieces(recorded, device).items() for s, e in times)
        steps = [f"{phase} from {told(s - recorded.begin)} to {told(e - recorded.begin)}" for s, e, phase in pieces]
        more = f" and {len(steps) - 6} more pieces" if len(steps) > 6 else ""
        parts.append(f"{device}: " + (", ".join(steps[:6]) + more if steps else "nothing") + f" {unit}")
    words = "; ".join([*parts, *_waiting_words(recorded)])
    return f"Timeline over {told(recorded.span)} {unit}. {words}" + f". {_timeline_summary(recorded)}"


def _waiting_words(recorded) -> list[str]:
    """Who waits for whom in communication, and how long."""
    if not any(event.kind == "comm" for event in recorded.events):
        return []
    table = recorded.waited_for()
    return [
        f"{waiter} waits {_three(ms)} ms for {last}"
        for waiter, row in table.iterrows()
        for last, ms in row.items()
        if ms
    ]


def _timeline_summary(recorded) -> str:
    shares = ", ".join(f"{device} idle {1 - busy:.0%}" for device, busy in recorded.utilization().items())
    unit, scale = _unit(recorded.span)
    return f"{shares} of {_three(recorded.span * scale)} {unit} ({recorded.source})."


def _unit(span: float) -> tuple[str, float]:
    """In what a time so long is told, and how many of that are a second."""
    return ("s", 1.0) if span >= 5 else ("ms", 1e3)


def _three(value: float) -> str:
    """A number in three figures, and never as 1.46e+03."""
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def utilization(monitor, title: str | None = None) -> Picture:
    """What a `GpuMonitor` sampled: percent of each sample period with a kernel running, one line a device."""
    figure, axes = labelled_axes(2.8, monitor.source, title)
    words = []
    for (color, line, marker), device in zip(_styles(len(monitor.devices)), monitor.devices, strict=True):
        points = [(s.time, s.utilization) for s in monitor.samples if s.device == device and s.utilization is not None]
        if points:
            times, values = zip(*points, strict=True)
            axes.plot(times, values, color=color, linestyle=line, marker=marker, markersize=3.5, label=device)
            words.append(f"{device}: mean {sum(values) / len(values):.0f}%, highest {max(values):.0f}%")
        else:
            axes.plot([], [], color=color, linestyle=line, marker=marker, label=f"{device}: n/a")
            words.append(f"{device}: n/a")
    axes.set_ylim(-3, 103)
    axes.set_ylabel("utilization, %", fontsize=9, color=INK)
    axes.set_xlabel("s", fontsize=9, color=INK)
    axes.legend(fontsize=9, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    summary = f"Utilization: {'; '.join(words)} ({monitor.source})."
    return Picture(figure, f"Utilization over time. {summary}", summary)


def memory(used: Mapping[str, tuple[float, float]], source: str, title: str | None = None) -> Picture:
    """Memory by device: `used` maps each to (bytes used, bytes there are)."""
    figure, axes = labelled_axes(1.1 + 0.5 * len(used), source, title)
    names = list(used)
    for row, (amount, capacity) in enumerate(used.values()):
        axes.barh(row, capacity / GIB, height=0.55, facecolor="white", edgecolor=INK, linewidth=1)
        axes.barh(row, amount / GIB, height=0.55, facecolor=BLUE, hatch="//", edgecolor="white")
        axes.text(
            capacity / GIB * 1.01, row, f"{amount / GIB:.2f} of {capacity / GIB:.1f} GiB", va="center", fontsize=9
        )
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlim(0, max(capacity for _, capacity in used.values()) / GIB * 1.3)
    axes.set_xlabel("GiB", fontsize=9, color=INK)
    words = "; ".join(f"{name}: {a / GIB:.2f} of {c / GIB:.1f} GiB" for name, (a, c) in used.items())
    return Picture(figure, f"Memory by device. {words}. {source}.", f"Memory: {words} ({source}).")


def sweep(
    x: Sequence[float],
    curves: Mapping[str, Sequence],
    source: str,
    *,
    bound: Sequence[float] | None = None,
    x_label: str = "",
    y_label: str = "",
    best: Callable | None = min,
    log: bool = False,
    title: str | None = None,
) -> Picture:
    """One value swept. `curves` maps a name to its values, each a number or (mean, deviation) for error bars.

    `bound` is drawn as a thin line. `best` is `min` or `max`, and says which value the summary calls the best; with
    None it gives the first and the last. `log`: a logarithmic axis for what is swept, with its values as marks.
    """
    figure, axes = labelled_axes(3.3, source, title)
    words = []
    for (color, line, marker), (name, values) in zip(_styles(len(curves)), curves.items(), strict=True):
        means = [value[0] if isinstance(value, tuple) else value for value in values]
        errors = [value[1] if isinstance(value, tuple) else 0.0 for value in values]
        error_bars = _down_and_up(means, errors) if any(errors) else None
        axes.errorbar(x, means, yerr=error_bars, color=color, linestyle=line, marker=marker, capsize=3, label=name)
        if best is None:
            words.append(f"{name}: {means[0]:.4g} at {x[0]:g}, {means[-1]:.4g} at {x[-1]:g}")
        else:
            at = means.index(best(means))
            words.append(f"{name}: {means[at]:.4g} at {x[at]:g} is best")
    if bound is not None:
        axes.plot(x, bound, color=INK, linewidth=1, linestyle=(0, (1, 1)), label="bound")
    if log:
        axes.set_xscale("log")
        axes.set_xticks(x, [f"{value:g}" for value in x])
        axes.minorticks_off()
    elif all(isinstance(value, int) for value in x):
        axes.xaxis.set_major_locator(FixedLocator(x) if len(x) <= 8 else MaxNLocator(integer=True))
    _begin_at_zero(axes)
    axes.set_xlabel(x_label, fontsize=9, color=INK)
    axes.set_ylabel(y_label, fontsize=9, color=INK)
    axes.legend(fontsize=9, frameon=False)
    summary = f"{y_label} by {x_label}. {'; '.join(words)} ({source})."
    points = "; ".join(
        f"{name}: "
        + ", ".join(f"{a:g}: {(v[0] if isinstance(v, tuple) else v):.4g}" for a, v in zip(x, values, strict=True))
        for name, values in curves.items()
    )
    return Picture(figure, f"{summary} {points}.", summary)


def _begin_at_zero(axes) -> None:
    """Unless the values are all far from it, or below: or a line that does not rise looks like one at 0."""
    lowest, highest = axes.get_ylim()
    if 0 < lowest < highest / 2:
        axes.set_ylim(bottom=0)


def bars(values: Mapping[str, object], source: str, *, y_label: str = "", title: str | None = None) -> Picture:
    """A comparison: `values` maps a name to a number or to (mean, deviation)."""
    figure, axes = labelled_axes(3.0, source, title)
    hatches = ["", "//", "..", "xx", "\\\\", "oo"]
    words = []
    for place, (name, value) in enumerate(values.items()):
        mean, deviation = value if isinstance(value, tuple) else (value, 0.0)
        color = LINES[place % len(LINES)][0]
        axes.bar(
            place,
            mean,
            width=0.6,
            yerr=_down_and_up([mean], [deviation]) if deviation else None,
            capsize=4,
            color=color,
            hatch=hatches[place % 6],
            edgecolor="white",
        )
        spread = f" ± {deviation:.2g}" if deviation else ""
        axes.annotate(
            f"{mean:.4g}{spread}", (place, mean + deviation), ha="center", va="bottom", fontsize=9, xytext=(0, 2),
            textcoords="offset points",
        )  # fmt: skip
        words.append(f"{name}: {mean:.4g}{spread}")
    axes.set_xticks(range(len(values)), list(values))
    axes.set_ylabel(y_label, fontsize=9, color=INK)
    axes.margins(y=0.15)
    summary = f"{y_label}. {'; '.join(words)} ({source})."
    return Picture(figure, f"Bars. {summary}", summary)


def _down_and_up(means, deviations) -> list[list[float]]:
    """The two ends of error bars: none reaches below 0, where there is no time, from a mean above it."""
    return [[min(dev, mean) if mean > 0 else dev for mean, dev in zip(means, deviations, strict=True)], deviations]


def _styles(count: int):
    return [LINES[number % len(LINES)] for number in range(count)]
