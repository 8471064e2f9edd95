"""A live view of a `GpuMonitor`, and what stays of it: a picture, a table, a line."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from html import escape

from utils.widgets.front_end import mimebundle, show, widgets_here

GIB, MIB = 2**30, 2**20
SECONDS_BETWEEN = 0.2
HISTORY = 48  # samples of each device in its little curve
INK = "var(--jp-ui-font-color1, var(--vscode-foreground, currentColor))"
LINE = "rgba(128, 128, 128, .55)"


def live(monitor) -> LiveView:
    """A live view of a `GpuMonitor`, and at its end a picture, a table and one line that stay.

        with GpuMonitor([device0, device1]) as m, live(m) as view:
            for step in range(200):
                train_step()
                view.tick()

    `tick` is needed on Colab only, where widgets do not move unless the cell itself moves them; elsewhere the
    sampler does. TypeError for what is no monitor.
    """
    needed = ("devices", "samples", "latest", "on_sample", "table", "imbalance", "source", "stop")
    if not all(hasattr(monitor, name) for name in needed):
        raise TypeError(
            f"live({type(monitor).__name__}): give a monitor: with GpuMonitor([device0, device1]) as m, live(m):"
        )
    return LiveView(monitor)


class LiveView:
    """Shows a monitor while a block runs. At most five updates a second."""

    def __init__(self, monitor):
        self._monitor = monitor
        self._html = self._handle = None
        self._last = -math.inf
        self._lock = threading.Lock()

    def __enter__(self) -> LiveView:
        widgets = widgets_here()
        if widgets is not None:
            self._html = widgets.HTML(_live_html(self._monitor))
            self._handle = show(mimebundle(self._html, f"A live view ({self._monitor.source})."), display_id=True)
            self._monitor.on_sample(lambda _: self.tick())
        return self

    def tick(self) -> None:
        """Show the newest samples, unless that was done less than a fifth of a second ago."""
        if self._html is None or not self._lock.acquire(blocking=False):
            return
        try:
            now = time.monotonic()
            if now - self._last >= SECONDS_BETWEEN:
                self._last = now
                self._html.value = _live_html(self._monitor)
        finally:
            self._lock.release()

    def __exit__(self, *exception) -> None:
        html, self._html = self._html, None
        try:
            self._monitor.stop()
            self._end()
        except Exception as error:  # the block may be raising something that matters more
            print(f"live: the final view could not be drawn: {error}")
        if html is not None:
            html.close()

    def _end(self) -> None:
        """What a view without widgets keeps too: a PNG, an HTML table, a line of text."""
        from utils.observe import plots

        monitor = self._monitor
        picture, table = plots.utilization(monitor), monitor.table()
        data, metadata = picture._repr_mimebundle_()
        if self._handle is not None:
            # In the place of the widget, so that a saved notebook holds none that cannot be shown any more.
            self._handle.update(data, raw=True, metadata=metadata)
        else:
            show(data, metadata)
        show({"text/html": table.to_html(), "text/plain": table.to_string()})
        print(f"{monitor.imbalance().text} ({monitor.source})")
        for line in getattr(monitor, "trouble", ()):
            print("Could not be read:", line)


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.0f} %"


def _memory(used: int | None, total: int | None) -> str:
    if used is None and total is None:
        return "n/a"
    first = "n/a" if used is None else f"{used / GIB:.1f}" if used >= GIB / 10 else f"{used / MIB:.0f} MiB"
    return f"{first} of {'n/a' if total is None else f'{total / GIB:.1f} GiB'}"


def _live_html(monitor) -> str:
    """One row a device: name, bar, percent, the last seconds as a curve, memory; below, what it was read from."""
    latest, width = monitor.latest(), len(monitor.devices)
    samples = monitor.samples[-HISTORY * width :]
    rows = []
    for device in monitor.devices:
        newest = latest.get(device)
        share = newest.utilization if newest else None
        memory = _memory(newest.used, newest.total) if newest else "n/a"
        past = [sample.utilization for sample in samples if sample.device == device]
        cells = (
            (f"<b>{escape(device)}</b>", "left"),
            (_bar(share), "left"),
            (f"<span class='course-percent'>{_percent(share)}</span>", "right"),
            (_curve(past), "left"),
            (escape(memory), "right"),
        )
        rows.append(
            "".join(f"<td style='padding:3px 14px 3px 0;text-align:{side}'>{cell}</td>" for cell, side in cells)
        )
    style = f"color:{INK};font-size:14px;line-height:1.4;font-variant-numeric:tabular-nums"
    heads = ("device", "busy now", "", f"last {HISTORY} samples", "memory")
    sides = ("left", "left", "left", "left", "right")
    head = "".join(
        f"<th scope='col' style='padding:0 14px 2px 0;text-align:{side};font-weight:normal;opacity:.75'>{text}</th>"
        for text, side in zip(heads, sides, strict=True)
    )
    table = f"<table style='border-collapse:collapse'><tr>{head}</tr><tr>{'</tr><tr>'.join(rows)}</tr></table>"
    return f"<div style='{style}'>{table}<div style='opacity:.75;font-size:12px'>{escape(monitor.source)}</div></div>"


def _bar(share: float | None) -> str:
    """A bar of a share in percent; what is unknown is a dashed frame, not an empty bar."""
    if share is None:
        return f"<div style='width:220px;height:14px;border:1px dashed {LINE}'></div>"
    full = min(max(share, 0.0), 100.0)
    return (
        f"<div role='progressbar' aria-valuenow='{full:.0f}' style='width:220px;height:14px;border:1px solid {LINE};"
        f"border-radius:3px;overflow:hidden'><div style='width:{full:.1f}%;height:100%;background:#0072B2'></div></div>"
    )


def _curve(shares: Sequence[float | None]) -> str:
    """The last shares as a line, with a gap where one is unknown."""
    width, height = 192, 26
    step = width / (HISTORY - 1)
    path, pen = [], "M"
    for number, share in enumerate(shares[-HISTORY:], HISTORY - len(shares[-HISTORY:])):
        if share is None:
            pen = "M"
        else:
            path.append(f"{pen}{number * step:.1f} {height - 2 - (height - 4) * min(share, 100) / 100:.1f}")
            pen = "L"
    style = f"display:block;border-bottom:1px solid {LINE}"
    return (
        f"<svg width='{width}' height='{height}' aria-hidden='true' style='{style}'>"
        f"<path d='{''.join(path)}' fill='none' stroke='#0072B2' stroke-width='1.8'/></svg>"
    )
