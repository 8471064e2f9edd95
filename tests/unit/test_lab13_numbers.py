"""Lab 13's numbers and rules are not its own: layers are the planner's, visible GPUs are PyTorch's."""

import random

import nbformat
import pytest
import torch

from tests.support.notebooks import ROOT
from utils.exercises.facts import visible
from utils.planner import Cluster, llama

lab13 = visible("lab13")
SIZES = {
    "1B": {"width": 2048, "heads": 16, "hidden": 5504, "length": 512},
    "7B": {"width": 4096, "heads": 32, "hidden": 11008, "length": 4096},
    "30B": {"width": 6656, "heads": 52, "hidden": 17920, "length": 4096},
    "70B": {"width": 8192, "heads": 64, "hidden": 28672, "length": 4096},
}
GPUS = {"H100": "H100", "A100": "A100-80GB-SXM"}


@pytest.mark.parametrize("name", lab13.MODELS)
def test_a_layer_of_the_lab_is_what_the_planner_traces(name):
    size, _, gpu = name.partition(" on ")
    told = lab13.MODELS[name]
    block = llama(layers=told["layers"], vocabulary=32000, **SIZES[size]).blocks[1]
    for tensor, layer in told["layer"].items():
        one, eight = (block.traced(Cluster(GPUS[gpu]).gpu, rows, tensor, False) for rows in (1, 8))
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
    machine = [f"GPU-{chance.randrange(16**4):04x}" for _ in range(6)]
    for _ in range(300):
        numbers = chance.sample(range(-1, 8), 3)
        beginnings = chance.sample([uuid[: chance.choice((5, 6, 8))] for uuid in (*machine, "GPU-xyzw")], 3)
        words = list(map(str, numbers)) if chance.random() < 0.5 else beginnings
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(words))
        found = torch.cuda._parse_visible_devices()
        if found and isinstance(found[0], str):
            found = torch.cuda._transform_uuid_to_ordinals(found, machine)
        elif any(number >= len(machine) for number in found):
            found = found[: [number >= len(machine) for number in found].index(True)]
        variables = {"CUDA_VISIBLE_DEVICES": ",".join(words), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        seen = lab13.seen_by(variables, machine, [])
        if len(set(seen)) == len(seen) and len(set(words)) == len(words):  # no GPU twice
            assert [machine[number] for number in found] == seen, words
