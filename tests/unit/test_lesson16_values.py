"""Lesson 16: each number that its explanations state is computed again, by the lesson's own cells."""

from pathlib import Path

import nbformat
import pytest
import torch

from tests.support.notebooks import ROOT
from utils.exercises.tasks.lesson12.sizes import in_turn
from utils.exercises.tasks.lesson16 import worked
from utils.widgets.explanations import FOLDER, sections

PAGE: Path = ROOT / "notebooks" / "16_attention_over_gpus.ipynb"
EXPLAINED = sections(FOLDER / "16.md")
DEFINED = "attend-imports", "attend-timed"


@pytest.fixture(scope="module")
def lesson():
    """The lesson's names after the cells that define, with the working versions of its tasks."""
    sources = {cell.id: cell.source for cell in nbformat.read(PAGE, 4).cells}
    names = {"__name__": "__main__"} | {name: vars(worked)[name] for name in ("merge", "ring_attention")}
    parts = [sources[name] for name in DEFINED]
    parts += [sources[name].split("\n\n\n")[0] for name in ("attend-loss-run", "attend-long-run", "attend-causal-run")]
    parts.insert(1, next(line for line in sources["attend-loss-run"].splitlines() if line.startswith("IN_NODE")))
    for source in parts:
        exec(source, names)
    return names


def test_the_loss_of_sharded_logits_receives_three_numbers_a_token(lesson):
    whole, *_ = lesson["IN_NODE"].run(lesson["loss_of"], gathered=True)[0]
    sharded, *_ = lesson["IN_NODE"].run(lesson["loss_of"], gathered=False)[0]
    assert sharded == 2 * 3 / 4 * 3 * 8192 * torch.float32.itemsize  # three all-reduces, by four ranks
    assert whole == 3 / 4 * 8192 * 128256 * torch.bfloat16.itemsize
    assert whole / sharded == pytest.approx(10000, rel=0.1)
    assert "ten thousand times" in EXPLAINED["1"]
    assert "three numbers per token" in EXPLAINED["1"]


def test_bytes_grow_with_the_tokens_and_attention_faster(lesson):
    one = lesson["ranks"](1, gpu="H100", compute=False)
    short, long = (one.run(lesson["layer_of"], tokens=tokens)[0] for tokens in (8192, 131072))
    assert long[0] == 16 * short[0]
    assert f"takes {long[1]:.0%} of the layer's forward pass instead of {short[1]:.0%}" in EXPLAINED["2"]
    assert 32 / 8 * long[0] > 80e9, "it exceeds an H100's memory"


def test_the_network_is_hidden_from_so_many_tokens_on_and_a_causal_mask_is_hardly_faster(lesson):
    ways = [(lesson["ring_of_kernels"], tokens) for tokens in (8192, 32768, 65536, 131072)]
    found = lesson["ON_NETWORK"].run(in_turn, lesson["timed"], *ways, (lesson["causal_ring"], 131072))[0]
    *ring, causal = found
    idle = [timeline.bubble_fraction() for timeline in ring]
    assert idle[1] > 0.02 > idle[2]
    assert "From 64k on" in EXPLAINED["3"]
    assert f"At 8k, ranks are idle for {idle[0]:.0%} of the time, and at 32k for {idle[1]:.0%}" in EXPLAINED["3"]
    assert ring[-1].span / causal.span == pytest.approx(1.15, abs=0.02)
    assert "About 1.15 times" in EXPLAINED["4"]
    busy = [causal.busy(f"rank {rank}") for rank in range(4)]
    assert busy[3] / busy[0] == pytest.approx(3.5 / 0.5, rel=0.05), "blocks of the last rank and of the first"
