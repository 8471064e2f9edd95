"""The backward graph over the devices: what is in it, what it says, where it is drawn."""

from itertools import pairwise
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from utils.observe.devices import devices
from utils.observe.graphs import BOX, _way, backward_graph


class Split(nn.Module):
    def __init__(self, device0, device1, through=None):
        super().__init__()
        self.device0, self.device1, self.through = device0, device1, through
        self.layer1 = nn.Linear(4, 6).to(device0)
        self.layer2 = nn.Linear(6, 2).to(device1)

    def forward(self, x):
        hidden = torch.relu(self.layer1(x.to(self.device0)))
        return self.layer2((hidden if self.through is None else hidden.to(self.through)).to(self.device1))


def graph_of(through=None):
    model = Split(*devices(2, quiet=True), through)
    return backward_graph(model(torch.ones(3, 4)), model)


def test_every_node_is_where_its_gradient_arrives():
    nodes = [(node.name, node.device, node.parameter) for node in graph_of().nodes]
    assert sorted(nodes) == [
        ("AccumulateGrad", "simgpu:0", "layer1.bias"),
        ("AccumulateGrad", "simgpu:0", "layer1.weight"),
        ("AccumulateGrad", "simgpu:1", "layer2.bias"),
        ("AccumulateGrad", "simgpu:1", "layer2.weight"),
        ("AddmmBackward0", "simgpu:0", ""),
        ("AddmmBackward0", "simgpu:1", ""),
        ("ReluBackward0", "simgpu:0", ""),
        ("TBackward0", "simgpu:0", ""),
        ("TBackward0", "simgpu:1", ""),
        ("ToCopyBackward0", "simgpu:1", ""),
    ]
    order = [node.column for node in graph_of().nodes]
    assert order[0] == 0, "it begins at the output"


def test_a_bridge_leads_from_device_to_device_and_has_its_bytes():
    assert [(b.device, b.to, b.size) for b in graph_of().bridges] == [("simgpu:1", "simgpu:0", 3 * 6 * 4)]
    assert graph_of().summary == (
        "Backward, from left to right: 5 nodes on simgpu:0, 4 nodes on simgpu:1. "
        "Bridges: simgpu:1 to simgpu:0 (72 bytes)."
    )


def test_the_way_through_the_host_has_two_bridges_with_nothing_between():
    graph = graph_of(through="cpu")
    assert [(b.device, b.to) for b in graph.bridges] == [("simgpu:1", "cpu"), ("cpu", "simgpu:0")]
    assert graph.devices == ["cpu", "simgpu:0", "simgpu:1"]


def test_a_change_of_the_dtype_is_no_bridge_and_a_node_that_is_used_twice_is_there_once():
    device0, _ = devices(2, quiet=True)
    start = torch.ones(3, device=device0, requires_grad=True)
    hidden = start.double()
    graph = backward_graph(hidden.relu() + hidden.tanh())
    assert graph.bridges == []
    assert [node.name for node in graph.nodes].count("ToCopyBackward0") == 1
    assert "Bridges: none." in graph.summary


def test_who_has_no_graph_is_told_so():
    with pytest.raises(ValueError, match="no backward graph: its grad_fn is None"):
        backward_graph(torch.ones(3))


def test_nodes_are_drawn_in_the_lane_of_their_device_a_bridge_on_the_border_and_none_on_another():
    graph = graph_of()
    places, lanes = graph._places()
    assert list(lanes) == ["simgpu:0", "simgpu:1"]
    for node, (_, y) in places.items():
        top, bottom = lanes[node.device]
        assert top == pytest.approx(y) if node.kind == "bridge" else top < y < bottom
    assert len({(round(x, 3), round(y, 3)) for x, y in places.values()}) == len(places)
    assert all(places[node][0] < places[other][0] for node in graph.nodes for other in node.next)


def test_the_drawing_is_an_svg_that_says_in_words_what_it_shows_and_is_the_same_each_time():
    graph = graph_of()
    data = graph._repr_mimebundle_()
    root = ElementTree.fromstring(data["image/svg+xml"])
    assert root.get("role") == "img"
    assert root.find("{*}desc").text == graph.summary == data["text/plain"]
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert {"simgpu:0", "simgpu:1", "ToCopyBackward0", "layer1.weight", "7.2e-05 MB"} <= texts
    assert graph.svg() == graph_of().svg()
    assert "fill: #ffffff" in graph.svg()  # a ground of its own, in dark themes too


def test_bridges_and_parameters_are_told_apart_without_colour():
    figure = graph_of().figure()
    boxes = [patch for patch in figure.axes[0].patches if hasattr(patch, "get_boxstyle")]
    kinds = {(box.get_linewidth(), box.get_linestyle()) for box in boxes}
    assert len(kinds) == 3


class Skips(nn.Module):
    """`early` is needed at once and once more at the end, so an arrow passes over the columns between."""

    def __init__(self, device0, device1):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4).to(device0), nn.Linear(4, 4).to(device0)
        self.device0, self.device1 = device0, device1

    def forward(self, x):
        early = self.first(x.to(self.device0))
        late = torch.relu(self.second(torch.relu(early)))
        return early.to(self.device1) * late.to(self.device1) + early.sum().to(self.device1)


def test_no_arrow_runs_behind_a_box():
    graph = backward_graph(Skips(*devices(2, quiet=True))(torch.ones(3, 4)))
    places, _ = graph._places()
    wide, high = BOX
    for node in graph.nodes:
        for other in node.next:
            for (x0, y0), (x1, y1) in pairwise(_way(node, other, places)):
                for share in (n / 50 for n in range(51)):
                    x, y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
                    behind = [
                        box.name
                        for box, (left, middle) in places.items()
                        if left + 0.01 < x < left + wide - 0.01 and abs(y - middle) < high / 2 - 0.01
                    ]
                    assert not behind, (node.name, other.name)
