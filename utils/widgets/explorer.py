"""Sliders for the cut and the micro-batches of a split, and the schedule that they give."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any

from utils.widgets import front_end
from utils.widgets.front_end import mimebundle, show, widgets_here

MOST_MICRO_BATCHES = 16  # more take too long to draw while a slider moves
DRAWN = 768  # width of the picture, CSS pixels
SHOWN_CUTS = 7


def explore_split(
    model,
    x,
    *,
    devices: int | Sequence = 2,
    cut: int | None = None,
    micro_batches: int | None = None,
    gpu: object = None,
    link: object = None,
    overlap: bool = True,
) -> SplitExplorer:
    """What a training step takes by where `model` is cut and into how many micro-batches its batch `x` is divided.

    `model` is an nn.Sequential or a list of layers; sliders choose the first layer of device1 and the number of
    micro-batches, of equal size. The picture is GPipe's schedule (`utils.schedules.of_layers`) of *computed* costs:
    simgpu's cost model for `gpu` and `link`, the simulated machine's unless told, and for each layer's backward
    pass, as an approximation, 2 times the FLOPs and bytes of its forward where it has weights, 1 time where not.
    Neither launches nor the optimizer are in it. Nothing runs on a device.

    `devices` may be two names for the lanes. `overlap=False` makes both devices wait for each copy. ValueError or
    TypeError, one line, for a model, batch or choice that cannot be explored.
    """
    from torch import Tensor, nn

    layers = list(model) if isinstance(model, (nn.Sequential, nn.ModuleList, list, tuple)) else []
    if len(layers) < 2 or not all(callable(layer) for layer in layers):
        raise TypeError(
            f"explore_split({type(model).__name__}): give an nn.Sequential or a list of at least two layers, "
            "because the cut is between two layers"
        )
    if not isinstance(x, Tensor) or x.dim() == 0 or not len(x):
        raise TypeError(f"explore_split(model, {type(x).__name__}): x must be a tensor with one batch of samples")
    names = [f"device{number}" for number in range(2)] if devices == 2 else devices
    if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != 2:
        raise ValueError(
            f"explore_split(devices={devices!r}): it draws two devices; utils.schedules.of_layers takes any number"
        )
    explorer = SplitExplorer(layers, x, tuple(map(str, names)), *_hardware(gpu, link), overlap)
    explorer.costs(1)  # what is wrong with a layer is said of the batch as it was given
    few = [count for count in explorer.choices if count <= 4]
    explorer.move(cut=len(layers) // 2 if cut is None else cut, micro_batches=micro_batches or few[-1])
    return explorer


def _hardware(gpu, link):
    """The profiles to compute with: those asked for, else those of the simulated machine, else a pair of V100."""
    import simgpu
    from simgpu.profiles import GPUS, LINKS, find

    settings = simgpu.settings() if simgpu.is_enabled() else simgpu.Settings()
    return find("gpu", GPUS, gpu or settings.gpu), find("link", LINKS, link or settings.link)


class SplitExplorer:
    """A split to move about. `cut` and `micro_batches` are where it stands, `timeline` and `text` what that gives."""

    def __init__(self, layers, x, devices, gpu, link, overlap):
        self.layers, self._x, self.devices = layers, x, devices
        self._gpu, self._link, self._overlap = gpu, link, overlap
        self.choices = [n for n in range(1, min(len(x), MOST_MICRO_BATCHES) + 1) if len(x) % n == 0]
        self.cut: Any = None
        self.micro_batches: Any = None
        self.source = (
            f"simulated: 2 x {gpu.name}, {link.name}; computed from costs, not run; "
            "backward as 2 x forward (1 x without weights)"
        )
        self._costs = {}
        self._box: Any = None  # made of widgets when it is shown first, as what lies in it
        self._picture_html: Any = None
        self._strip_html: Any = None
        self._text_html: Any = None
        self._sliders: tuple = ()

    def costs(self, micro_batches: int):
        """What each layer costs for one of so many micro-batches."""
        from utils.schedules.of_layers import estimate_costs

        if micro_batches not in self._costs:
            part = self._x[: len(self._x) // micro_batches]
            self._costs[micro_batches] = estimate_costs(self.layers, part, self._gpu)
        return self._costs[micro_batches]

    def at(self, cut: int, micro_batches: int):
        """The timeline of one choice."""
        from utils.schedules.of_layers import schedule

        costs = self.costs(micro_batches)
        return schedule(
            costs, cut, micro_batches, self._link, devices=self.devices, overlap=self._overlap, source=self.source
        )

    def move(self, *, cut: int | None = None, micro_batches: int | None = None) -> None:
        """Go to another choice. ValueError, one line, for one that there is not."""
        cut = self.cut if cut is None else cut
        micro_batches = self.micro_batches if micro_batches is None else micro_batches
        if isinstance(cut, bool) or not isinstance(cut, int) or not 1 <= cut < len(self.layers):
            raise ValueError(
                f"explore_split(cut={cut!r}): give 1 to {len(self.layers) - 1} for {len(self.layers)} layers"
            )
        if micro_batches not in self.choices:
            choices = ", ".join(map(str, self.choices))
            raise ValueError(
                f"explore_split(micro_batches={micro_batches!r}): a batch of {len(self._x)} splits into {choices}"
            )
        self.timeline = self.at(cut, micro_batches)
        self.cut, self.micro_batches = cut, micro_batches

    @property
    def one_device(self) -> float:
        """Seconds of the step on one device: the whole batch, nothing cut."""
        return sum(cost.forward + cost.backward for cost in self.costs(1))

    @property
    def text(self) -> str:
        """The step in one line: its time, idle shares and bytes copied."""
        m, line = self.micro_batches, self.timeline
        idle = ", ".join(f"{device} {1 - busy:.0%}" for device, busy in line.utilization().items())
        copied = sum(line.moved().values())
        said = (
            f"{line.span * 1e3:.3g} ms a step: {self.one_device / line.span:.2f} times as fast as one device. "
            f"Idle: {idle}, overall {line.bubble_fraction():.0%}. Copied: {copied / 1e6:.3g} MB."
        )
        host = m * self._gpu.launch * sum(cost.kernels for cost in self.costs(m))
        if host > line.span:
            said += (
                f" One host would need about {host * 1e3:.3g} ms to launch it all, so the step would take that long."
            )
        return said

    def table(self, micro_batches: int | None = None):
        """A pandas table, one row a cut: the step's milliseconds, idle percent of each device, MB copied."""
        import pandas

        m = micro_batches or self.micro_batches
        rows = {}
        for cut in range(1, len(self.layers)):
            line = self.at(cut, m)
            row = {"ms": line.span * 1e3}
            row |= {f"idle {device} %": 100 * (1 - busy) for device, busy in line.utilization().items()}
            rows[cut] = row | {"MB copied": sum(line.moved().values()) / 1e6}
        table = pandas.DataFrame.from_dict(rows, orient="index").round(3)
        table.index.name = "cut"
        return table

    # --- showing ------------------------------------------------------------------------------------------------

    def _some_cuts(self) -> str:
        table = self.table()
        step = math.ceil(len(table) / SHOWN_CUTS)
        keep = {self.cut, table["ms"].idxmin(), *table.index[::step]}
        return f"By cut, for {self._pieces}:\n{table.loc[sorted(keep)].to_string()}"

    @property
    def _pieces(self) -> str:
        return f"{self.micro_batches} micro-batch{'es' if self.micro_batches > 1 else ''}"

    def __repr__(self) -> str:
        where = f"{self.devices[1]} starts at layer {self.cut} (of 0 to {len(self.layers) - 1})"
        return f"{where}, {self._pieces}\n{self.text}\n{self._some_cuts()}\n({self.source})"

    def _picture(self, quick: bool):
        from utils.observe import plots

        picture = plots.timeline(self.timeline, f"Cut {self.cut}, {self._pieces}", quick=quick)
        # The same scale wherever the sliders stand, so that a shorter step looks shorter.
        longest = max(self.timeline.span, self.at(self.cut, 1).span)
        picture.figure.axes[0].set_xlim(0, longest * 1e3 * 1.1)
        return picture

    def _ipython_display_(self) -> None:
        picture = self._picture(quick=False)
        data, metadata = picture._repr_mimebundle_()
        data["text/plain"] = repr(self)
        widgets = widgets_here()
        if widgets is None:
            show(data, metadata)
            if front_end.in_kernel():
                print(self)
            return
        if self._box is None:
            self._make(widgets)
        # A view without widgets shows the picture in their place.
        show(data | mimebundle(self._box, repr(self)), metadata)

    def _make(self, widgets) -> None:
        style = {"description_width": "initial"}
        wide = widgets.Layout(width="384px")
        cut = widgets.IntSlider(
            value=self.cut, min=1, max=len(self.layers) - 1, style=style, layout=wide,
            description=f"{self.devices[1]} starts at layer",
        )  # fmt: skip
        micro = widgets.SelectionSlider(
            options=self.choices, value=self.micro_batches, style=style, layout=wide, description="micro-batches"
        )
        self._sliders = cut, micro
        self._strip_html, self._picture_html, self._text_html = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self._draw()
        for slider in self._sliders:
            slider.observe(self._moved, "value")
        row = widgets.HBox([cut, micro], layout=widgets.Layout(align_items="center"))
        parts = [row, self._strip_html, self._picture_html, self._text_html]
        self._box = widgets.VBox(parts)

    def _moved(self, _change) -> None:
        cut, micro = self._sliders
        self._text_html.value = "Computing ..."  # the picture above is still that of the last choice
        try:
            self.move(cut=cut.value, micro_batches=micro.value)
        except ValueError as error:  # a layer may refuse small micro-batches, as BatchNorm does one example
            self._text_html.value = f"{micro.value} micro-batches: {escape(str(error))}"
        else:
            self._draw()

    def _draw(self) -> None:
        picture = self._picture(quick=True)
        width, height = picture.figure.get_size_inches()
        self._picture_html.value = (
            f"<img alt='{escape(picture.alt)}' width='{DRAWN}' height='{DRAWN * height / width:.0f}' "
            "style='max-width:100%;border-radius:4px' "
            f"src='data:image/png;base64,{base64.b64encode(picture.png()).decode()}'>"
        )
        self._strip_html.value = self._strip()
        style = f"width:{DRAWN}px;max-width:100%;line-height:1.45"
        self._text_html.value = f"<div class='course-split' style='{style}'>{escape(self.text)}</div>"

    def _strip(self) -> str:
        """The layers, each as wide as its share of the work; dark on the first device, light on the second."""
        costs = self.costs(self.micro_batches)
        work = [cost.forward + cost.backward for cost in costs]
        total = sum(work) or 1.0
        box = "min-width:0;overflow:hidden;white-space:nowrap;text-overflow:ellipsis;padding:1px 0 1px 3px"
        dark, light = "background:#4a4a4a;color:#fff", "background:#e2e2e2;color:#222"
        parts = (self.devices[0], dark, 0, self.cut), (self.devices[1], light, self.cut, len(costs))
        halves, labels = [], []
        for device, colours, first, last in parts:
            boxes = ""
            for cost, seconds in zip(costs[first:last], work[first:last], strict=True):
                name, share = escape(cost.name), seconds / total
                style = f"flex:{100 * share + 0.2:.2f} 0 0;{box};border:1px solid #888;{colours}"
                boxes += (
                    f"<div title='layer {name}: {share:.0%} of the work' style='{style}'>{_fitting(name, share)}</div>"
                )
            share = sum(work[first:last]) / total
            labels.append(f"<div><b>{escape(device)}</b> {share:.0%} of the work</div>")
            halves.append(f"<div style='flex:{100 * share + 2:.2f} 0 0;min-width:0;display:flex'>{boxes}</div>")
        # The labels stand at the two ends, because a part with little work is too narrow for its own.
        row = f"width:{DRAWN}px;max-width:100%;display:flex;font-size:12px;line-height:1.5"
        return (
            f"<div style='{row};justify-content:space-between'>{''.join(labels)}</div>"
            f"<div style='{row};gap:8px'>{''.join(halves)}</div>"
        )


def _fitting(name: str, share: float) -> str:
    """As much of a layer's name, `2 Linear`, as its box has room for; the rest is in its tooltip."""
    return name if share > 0.08 else name.split()[0] if share > 0.03 else "&nbsp;"
