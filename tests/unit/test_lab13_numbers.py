"""Lab 13's numbers and rules are not its own: layers are the planner's, visible GPUs are PyTorch's."""

import random

import nbformat
import pytest
import torch

from tests.support.notebooks import ROOT
from utils.exercises.facts import visible
from utils.planner import Cluster, llama
from utils.planner.models import Split

lab13 = visible("lab13")
SIZES = {
    "1B": {"hidden_size": 2048, "heads": 16, "intermediate_size": 5504, "length": 512},
    "7B": {"hidden_size": 4096, "heads": 32, "intermediate_size": 11008, "length": 4096},
    "30B": {"hidden_size": 6656, "heads": 52, "intermediate_size": 17920, "length": 4096},
    "70B": {"hidden_size": 8192, "heads": 64, "intermediate_size": 28672, "length": 4096},
}
GPUS = {"H100": "H100", "A100": "A100-80GB-SXM"}


@pytest.mark.parametrize("name", lab13.MODELS)
def test_a_layer_of_the_lab_is_what_the_planner_traces(name):
    size, _, gpu = name.partition(" on ")
    told = lab13.MODELS[name]
    block = llama(layers=told["layers"], vocab_size=32000, **SIZES[size]).blocks[1]
    for tensor, layer in told["layer"].items():
        one, eight = (block.traced(Cluster(GPUS[gpu]).gpu, rows, Split(tensor), False) for rows in (1, 8))
        forward, backward = ((seconds(eight, way) - seconds(one, way)) / 7 for way in ("forward", "backward"))
        fixed = seconds(one, "forward") + seconds(one, "backward") - forward - backward
        rounded = {"forward": forward, "backward": backward, "fixed": fixed}
        assert layer == {"weights": one.numbers, "kept": one.kept} | {
            kind: pytest.approx(found, abs=6e-7) for kind, found in rounded.items()
        }
        assert told["output"] == tensor * one.output


def seconds(trace, way: str) -> float:
    return sum(event for event in getattr(trace, way) if isinstance(event, float))


def test_the_notebook_has_the_same_model():
    notebook = nbformat.read(ROOT / "solutions" / "lab13" / "lab13_beyond_one_machine.ipynb", as_version=4)
    [cell] = [cell for cell in notebook.cells if cell.id == "lab13-ex5-run"]
    names: dict = {}
    exec(cell.source.partition("for memory")[0], names)
    assert names["SEVEN_B"] == lab13.MODELS["7B on H100"]


def test_what_a_process_sees_is_what_pytorch_makes_of_the_variable(monkeypatch):
    chance = random.Random(13)
    machine = [f"GPU-{number}" for number in range(6)]
    for _ in range(100):
        numbers = chance.sample(range(6), chance.randrange(7))
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(str, numbers)))
        found = torch.cuda._parse_visible_devices()
        assert lab13.seen_by(numbers, "PCI_BUS_ID", machine, []) == [machine[number] for number in found]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    found = torch.cuda._parse_visible_devices()
    assert lab13.seen_by(None, "PCI_BUS_ID", machine, []) == [machine[number] for number in found[:6]]
