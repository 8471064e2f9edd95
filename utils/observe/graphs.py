"""The backward graph of a tensor over the devices: which gradient arrives where, and a drawing of it, a lane a device.

graph = backward_graph(model(x), model)
graph.bridges       # where a gradient changes its device, and its bytes
graph               # shows itself: an SVG, and one line that says the same
"""

from __future__ import annotations

import io
import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from math import prod

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path

from simgpu.torch_private import gradients_of
from utils.observe.plots import BLUE, INK, ORANGE

COLUMN, ROW = 1.24, 0.62  # inches: a node and its arrow, a node and its gap
LANE = 0.34  # above and below the rows of a lane
BOX = 1.0, 0.38  # wide enough for AddmmBackward0 in the browser's font
STEP = 1.1 * BOX[1]  # from one bridge to the one below
SIZE = re.compile(r' (width|height)="[^"]*"')
WIDEST = 8.5  # inches that fit into a notebook: a wider drawing has no size of its own and is made to fit
LEAVES = "AccumulateGrad"
STYLE = {
    "node": {"facecolor": "white", "edgecolor": INK, "linewidth": 1.0},
    "parameter": {"facecolor": "#D6EAF8", "edgecolor": BLUE, "linewidth": 1.0, "linestyle": "--"},
    "bridge": {"facecolor": "#FCE8C3", "edgecolor": ORANGE, "linewidth": 2.4},
}


@dataclass(eq=False)
class Node:
    """One step of the backward pass. `device` is where its gradient arrives, `to` where what it passes on is."""

    name: str
    device: str
    to: str
    size: int  # bytes of the gradient that arrives
    parameter: str = ""  # of AccumulateGrad, whose gradient it is
    next: list[Node] = field(default_factory=list)
    column: int = 0  # steps from the output, by the longest way

    @property
    def kind(self) -> str:
        if self.name == LEAVES:
            return "parameter"
        return "node" if self.to == self.device else "bridge"


@dataclass
class BackwardGraph:
    """All nodes behind an output, each once, in an order in which backward may run them."""

    nodes: list[Node]

    @property
    def bridges(self) -> list[Node]:
        """The nodes in which a gradient changes its device."""
        return [node for node in self.nodes if node.kind == "bridge"]

    @property
    def devices(self) -> list[str]:
        return sorted({place for node in self.nodes for place in (node.device, node.to)})

    @property
    def summary(self) -> str:
        bridges = self.bridges
        ways = ", ".join(f"{node.device} to {node.to} ({node.size:,} bytes)" for node in bridges) or "none"
        there = Counter(node.device for node in self.nodes if node.kind != "bridge")
        rest = ", ".join(f"{there[device]} nodes on {device}" for device in self.devices)
        return f"Backward, from left to right: {rest}. Bridges: {ways}."

    def svg(self) -> str:
        """The drawing as the text of an SVG file, with its summary as the description; the same each time."""
        file = io.StringIO()
        with rc_context({"svg.fonttype": "none", "svg.hashsalt": "course", "font.family": ["sans-serif"]}):
            self.figure().savefig(file, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
        _, opening, rest = file.getvalue().partition("<svg ")
        head, _, rest = rest.partition(">")
        if self.figure().get_figwidth() > WIDEST:
            head = SIZE.sub("", head)
        return f'{opening}role="img" {head}><title>Backward graph</title><desc>{self.summary}</desc>{rest}'

    def figure(self) -> Figure:
        """Lanes from the top in the order of their names; in them the nodes, backward from left to right."""
        places, lanes = self._places()
        width = (max(node.column for node in self.nodes) + 1) * COLUMN + 0.75
        height = max(bottom for _, bottom in lanes.values()) + 0.08
        figure = Figure(figsize=(width, height))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.75, width - 0.75), ylim=(height, 0))
        axes.axis("off")
        for number, (device, (top, bottom)) in enumerate(lanes.items()):
            axes.axhspan(top, bottom, color="#F2F2F2" if number % 2 == 0 else "#E2E2E2", linewidth=0)
            axes.text(-0.7, (top + bottom) / 2, device, rotation=90, va="center", fontsize=8.5, color=INK)
        for node in self.nodes:
            self._draw(axes, node, places)
        return figure

    @staticmethod
    def _draw(axes, node: Node, places: dict) -> None:
        x, y = places[node]
        wide, high = BOX
        axes.add_patch(
            FancyBboxPatch((x, y - high / 2), wide, high, boxstyle="round,pad=0,rounding_size=0.06", **STYLE[node.kind])
        )
        below = {"parameter": node.parameter, "bridge": f"{node.size / 1e6:.3g} MB"}.get(node.kind, "")
        label = f"{node.name}\n{below}" if below else node.name
        axes.text(x + wide / 2, y, label, ha="center", va="center", fontsize=6.8, color=INK, linespacing=1.3)
        for other in node.next:
            arrow = {"arrowstyle": "-|>", "mutation_scale": 8, "color": INK, "linewidth": 0.9}
            axes.add_patch(FancyArrowPatch(path=Path(_way(node, other, places)), **arrow))

    def _places(self) -> tuple[dict[Node, tuple[float, float]], dict[str, tuple[float, float]]]:
        """Where the left side of each node is, and (top, bottom) of each lane; inches, from the top."""
        rows: dict[Node, int] = {}
        taken: dict[tuple[str, int], set[int]] = {}
        from_row = {other: node for node in reversed(self.nodes) for other in node.next if node.device == other.device}
        inside = [node for node in self.nodes if node.kind != "bridge"]
        for node in sorted(inside, key=lambda node: (node.column, not _goes_on(node))):
            used = taken.setdefault((node.device, node.column), set())
            first = rows.get(from_row.get(node), 0)  # straight on, as far as there is room
            rows[node] = next(row for row in count(first) if row not in used)
            used.add(rows[node])
        crossing = Counter((frozenset((node.device, node.to)), node.column) for node in self.bridges)
        lanes, top = {}, 0.08
        for device, below in zip(self.devices, [*self.devices[1:], ""], strict=True):
            last = max((max(used) for (place, _), used in taken.items() if place == device), default=0)
            lanes[device] = top, top + 2 * LANE + last * ROW + BOX[1]
            most = max((number for (ends, _), number in crossing.items() if ends == {device, below}), default=1)
            top = lanes[device][1] + (most - 1) * STEP  # room between the lanes for the bridges at one place
        places = {node: (node.column * COLUMN, lanes[node.device][0] + LANE + BOX[1] / 2 + row * ROW)
                  for node, row in rows.items()}  # fmt: skip
        met: Counter = Counter()
        # Between its two lanes; several at the same place below each other, in an order in which no arrows cross.
        for node in sorted(self.bridges, key=lambda node: min(other.column for other in node.next)):
            here, there = sorted((lanes[node.device], lanes[node.to]))
            number = crossing[frozenset((node.device, node.to)), node.column]
            first = (here[1] + there[0] - (number - 1) * STEP) / 2
            places[node] = node.column * COLUMN, first + met[node.column, here] * STEP
            met[node.column, here] += 1
        return places, lanes

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self.svg(), "text/plain": self.summary}

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self._repr_mimebundle_(), raw=True)
        print(self.summary)

    def __repr__(self) -> str:
        return self.summary


def _way(node: Node, other: Node, places: dict) -> list[tuple[float, float]]:
    """The points of an arrow: straight to the next column; past other columns between their rows, so behind no box."""
    (x, y), (to_x, to_y) = places[node], places[other]
    start, gap = x + BOX[0], (COLUMN - BOX[0]) / 2
    if other.column == node.column + 1:
        return [(start, y), (to_x, to_y)]
    between = y if node.kind == "bridge" else y + ROW / 2
    return [(start, y), (start + gap, between), (to_x - gap, between), (to_x, to_y)]


def backward_graph(output, model=None) -> BackwardGraph:
    """The graph that `output.backward()` would run. `model` gives its parameters their names.

    Raises ValueError for an output that has no graph.
    """
    if output.grad_fn is None:
        raise ValueError("this tensor has no backward graph: its grad_fn is None")
    names = {id(p): name for name, p in model.named_parameters()} if model is not None else {}
    nodes: dict = {}
    for step in _backward_order(output.grad_fn):
        behind = [nodes[each] for each, _ in step.next_functions if each is not None]
        nodes[step] = _node(step, behind, names)
    ordered = list(reversed(nodes.values()))
    for node in ordered:
        for other in node.next:
            other.column = max(other.column, node.column + 1)
    return BackwardGraph(ordered)


def _backward_order(root) -> list:
    """All nodes behind `root`, what comes next before what it comes from. No recursion: graphs are deep."""
    found, seen, waiting = [], set(), [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            found.append(node)
        elif node not in seen:
            seen.add(node)
            waiting.append((node, True))
            waiting += [(each, False) for each, _ in node.next_functions if each is not None and each not in seen]
    return found


def _node(step, behind: list[Node], names: dict[int, str]) -> Node:
    name = step.name().rpartition("::")[2]
    [given, *_] = gradients_of(step)
    device, size = str(given.device), prod(given.shape) * given.dtype.itemsize
    to = behind[0].device if behind and name.startswith("ToCopyBackward") else device
    parameter = names.get(id(step.variable), "") if name == LEAVES else ""
    return Node(name, device, to, size, parameter, behind)


def _goes_on(node: Node) -> bool:
    """Whether there is more behind it than the gradient of one parameter."""
    while len(node.next) == 1 and node.kind == "node":
        node = node.next[0]
    return node.kind == "bridge" or len(node.next) > 1
