"""Sliders for a cluster and a batch, and the layouts of a training step that the planner finds for them."""

from __future__ import annotations

import base64
from dataclasses import replace
from html import escape
from typing import Any

from utils.common.errors import Problem
from utils.widgets import front_end
from utils.widgets.front_end import mimebundle, show, widgets_here

DRAWN = 768  # width of the picture, CSS pixels
SHOWN = 5  # layouts in the picture and the table
GB = 1e9
CHOICES = {
    "gpus": tuple(2**power for power in range(10)),
    "network": ("25G", "100G", "200G", "400G"),
    "memory": (16, 24, 40, 48, 80, 96, 141, 192),
    "batch": tuple(2**power for power in range(4, 13)),
}
WORDS = {"gpus": "GPUs", "network": "network", "memory": "GB per GPU", "batch": "rows per step"}
COLUMNS = [
    "data",
    "shard",
    "tensor",
    "pipeline",
    "schedule",
    "micro-batches",
    "recompute",
    "step, s",
    "GiB",
    "GPU idle",
]
# What is searched unless told otherwise, so that an answer comes while a slider is still in the hand.
FEW = {"rows": 1, "recompute": ("none", "full")}


def explore_layouts(
    model,
    *,
    gpu: object = "H100",
    gpus: int = 64,
    per_node: int = 8,
    link: object = "nvlink4",
    network: str = "400G",
    memory: int | None = None,
    batch: int = 512,
    **limits,
) -> LayoutExplorer:
    """The fastest layouts of a training step of `model` that fit a cluster, as its sliders are moved.

    `model` is one of `utils.planner.llama(...)` or `of_module(...)`. Sliders choose how many GPUs there are, the
    network between nodes, the memory of a GPU in GB (`memory`, the profile's unless told), and the rows of a step.
    All is estimated by `utils.planner.plan`, and nothing runs. `limits` are plan's; unless told otherwise the search
    is for micro-batches of one row, recomputation of nothing or all, and weights
    sharded inside a node.

    TypeError, ValueError or Problem, one line, for what cannot be explored.
    """
    from utils.planner import Cluster, Model

    if not isinstance(model, Model):
        raise TypeError(f"explore_layouts({type(model).__name__}): give a utils.planner model, such as llama(...)")
    cluster = Cluster(gpu, gpus=per_node, per_node=per_node, link=link)  # what is wrong with a name is said at once
    explorer = LayoutExplorer(model, cluster, FEW | {"shards_in_node": "shard" not in limits} | limits)
    explorer.move(gpus=gpus, network=network, memory=memory or round(cluster.gpu.memory / GB), batch=batch)
    return explorer


class LayoutExplorer:
    """A cluster to change. `at` is where it stands, `plan` what the planner finds there, and `text` that in words."""

    def __init__(self, model, cluster, limits):
        self.model, self.at = model, {}
        self._cluster, self._limits, self._plans = cluster, limits, {}
        self._box: Any = None  # made of widgets when it is shown first, as what lies in it
        self._picture_html: Any = None
        self._text_html: Any = None
        self._sliders = {}

    def move(self, **to) -> None:
        """Change `gpus`, `network`, `memory` (GB) or `batch`. One line of ValueError or Problem for what cannot be."""
        if unknown := [name for name in to if name not in CHOICES]:
            raise ValueError(f"explore_layouts has no slider {unknown[0]!r}; it has {', '.join(CHOICES)}")
        at = self.at | to
        memory = at["memory"]
        if isinstance(memory, bool) or not isinstance(memory, (int, float)) or not memory > 0:
            raise ValueError(f"explore_layouts(memory={memory!r}): give a GPU's memory in GB, above 0")
        self.plan = self._planned(at)
        self.at = at

    def _planned(self, at):
        from utils.planner import plan

        key = tuple(at[name] for name in CHOICES)
        if key not in self._plans:
            gpu = replace(self._cluster.gpu, memory=at["memory"] * GB)
            cluster = replace(self._cluster, gpu=gpu, gpus=at["gpus"], network=at["network"])
            self._plans[key] = plan(self.model, cluster, at["batch"], only=SHOWN, **self._limits)
        return self._plans[key]

    @property
    def text(self) -> str:
        """What is fastest, and how many do not fit for which reason."""
        found, lines = self.plan, []
        if found.fits:
            best = found.fits[0]
            sent = " and ".join(f"{size / GB:.1f} GB over the {way}" for way, size in best.moved.items() if size)
            lines.append(
                f"{len(found.fits)} of {found.count} layouts fit. The fastest is {best.layout}: "
                f"{best.seconds:.3g} s a step, {best.tokens_per_second:,.0f} tokens/s/GPU, "
                f"{best.peak / 2**30:.1f} GiB plus {best.reserve / 2**30:.1f} for CUDA and NCCL, "
                f"idle {best.waiting:.0%} of the time. "
                f"A GPU sends {sent or 'nothing'} in a step."
            )
        elif found.too_large:
            lines.append(
                f"None of the {found.count} layouts fits. The smallest is {found.too_large[0].layout}: it "
                f"{found.too_large[0].reason}."
            )
        else:
            lines.append(f"None of the {found.count} layouts is possible.")
        reasons = "; ".join(
            f"{count} {'x' if count > 1 else ''} {why}" for why, count in found.reasons().head(3).items()
        )
        if reasons:
            lines.append(f"Why the others do not: {' '.join(reasons.split())}.")
        return "\n".join(lines)

    @property
    def source(self) -> str:
        return f"estimated from shapes, not run: {self.model.name} on {self.plan.cluster}"

    def table(self):
        """A pandas table of the fastest that fit, one row a layout."""
        if not self.plan.fits:
            return self.plan.table()
        return self.plan.table(min(SHOWN, len(self.plan.fits)))[COLUMNS].round(3)

    # --- showing ------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        head = ", ".join(f"{self.at[name]} {WORDS[name]}" for name in CHOICES)
        table = f"{self.table().to_string(index=False)}\n" if self.plan.fits else ""
        return f"{head}\n{self.text}\n{table}({self.source})"

    def _picture(self):
        from utils.planner.planning import draw_estimates

        found = self.plan.best(SHOWN) or self.plan.too_large[:SHOWN]
        title = f"{self.model.name}, {self.at['gpus']} GPUs, {self.at['batch']} rows"
        return draw_estimates(found, self.plan.cluster, title if self.plan.fits else f"{title}: nothing fits")

    def _ipython_display_(self) -> None:
        data, metadata = self._picture()._repr_mimebundle_()
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
        style = {"description_width": "7em"}
        for name, usual in CHOICES.items():
            options = sorted({*usual, self.at[name]}, key=lambda each: float(str(each).rstrip("G")))
            self._sliders[name] = widgets.SelectionSlider(
                options=options, value=self.at[name], description=WORDS[name], style=style,
                layout=widgets.Layout(width="380px"), continuous_update=False,
            )  # fmt: skip
            self._sliders[name].observe(self._moved, "value")
        self._picture_html, self._text_html = widgets.HTML(), widgets.HTML()
        self._draw()
        gpus, network, memory, batch = self._sliders.values()
        rows = [widgets.HBox([gpus, network]), widgets.HBox([memory, batch])]
        self._box = widgets.VBox([*rows, self._picture_html, self._text_html])

    def _moved(self, _change) -> None:
        self._text_html.value = "Computing ..."  # the picture above is still that of the last choice
        try:
            self.move(**{name: slider.value for name, slider in self._sliders.items()})
        except (Problem, ValueError) as error:  # such as a batch that the GPUs do not divide
            self._text_html.value = escape(str(error))
        else:
            self._draw()

    def _draw(self) -> None:
        picture = self._picture()
        width, height = picture.figure.get_size_inches()
        self._picture_html.value = (
            f"<img alt='{escape(picture.alt)}' width='{DRAWN}' height='{DRAWN * height / width:.0f}' "
            "style='max-width:100%;border-radius:4px' "
            f"src='data:image/png;base64,{base64.b64encode(picture.png()).decode()}'>"
        )
        style = f"width:{DRAWN}px;max-width:100%;line-height:1.45"
        lines = "".join(f"<div>{escape(line)}</div>" for line in self.text.splitlines())
        table = self.table().to_html(index=False, border=0) if self.plan.fits else ""
        small = f"<div style='font-size:12px'>({escape(self.source)})</div>"
        self._text_html.value = (
            f"<div style='{style}'>{lines}<div style='overflow-x:auto;font-size:12px'>{table}</div>{small}</div>"
        )
