"""The explorer of layouts: what it finds is the planner's, its sliders move it, and it is text without widgets."""

import re

import pytest
from test_widgets import front_end  # noqa: F401  a fixture

from utils.common.errors import Problem
from utils.planner import Cluster, llama, plan
from utils.widgets import explore_layouts
from utils.widgets import front_end as front_end_module

MODEL = llama(layers=8, hidden_size=1024, heads=8, kv_heads=4, intermediate_size=4096, vocab_size=8192, length=2048)


@pytest.fixture
def explorer():
    return explore_layouts(MODEL, gpus=8, batch=16)


def test_it_finds_what_the_planner_finds(explorer):
    searched = {"rows": 1, "recompute": ("none", "full"), "shards_in_node": True}
    whole = plan(MODEL, Cluster("H100", 8), 16, **searched)
    assert [each.layout for each in explorer.plan.best(5)] == [each.layout for each in whole.best(5)]
    assert explorer.plan.count == whole.count
    assert str(whole.fits[0].layout) in explorer.text
    explorer.move(gpus=4, network="100G")
    assert explorer.plan.cluster.gpus == 4
    assert explorer.at == {"gpus": 4, "network": "100G", "memory": 80, "batch": 16}


def test_less_memory_lets_less_fit_and_it_says_why(explorer):
    fit = len(explorer.plan.fits)
    explorer.move(memory=4)
    assert 0 < len(explorer.plan.fits) < fit
    assert "does not fit, above all" in explorer.text
    explorer.move(memory=0.1)
    assert not explorer.plan.fits
    assert re.search(r"None of the \d+ layouts fits\. The smallest is .* it needs .* GiB", explorer.text)
    assert "nothing fits" in explorer._picture().figure.axes[0].get_title(loc="left")


def test_the_sliders_move_it(front_end, explorer):  # noqa: F811
    explorer._ipython_display_()
    assert {"image/png", "text/plain", front_end_module.VIEW} == set(front_end[0])
    picture, text = explorer._picture_html.value, explorer._text_html.value
    explorer._sliders["gpus"].value = 4
    assert explorer.at["gpus"] == 4
    assert picture != explorer._picture_html.value
    assert text != explorer._text_html.value
    assert "alt='Memory of layouts by kind" in explorer._picture_html.value


def test_what_was_seen_before_is_not_searched_again(explorer):
    first = explorer.plan
    explorer.move(batch=32)
    explorer.move(batch=16)
    assert explorer.plan is first


def test_what_cannot_be_planned_is_said_and_changes_nothing(front_end, explorer):  # noqa: F811
    explorer._limits["tensor"] = 1
    explorer._limits["pipeline"] = 1
    explorer._ipython_display_()
    explorer._sliders["gpus"].value = 64
    assert "no layout uses 64 GPUs and divides a batch of 16" in explorer._text_html.value
    assert explorer.at["gpus"] == 8


def test_without_widgets_it_is_text(explorer, capsys):
    explorer._ipython_display_()
    out = capsys.readouterr().out
    assert out.startswith("8 GPUs, 400G network, 80 GB per GPU, 16 rows per step\n")
    assert explorer.text in out
    assert "step, s" in out
    assert "estimated from shapes, not run" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": [1]}, r"explore_layouts\(list\): give a utils.planner model"),
        ({"gpus": 12}, "12 GPUs do not fill nodes of 8"),
        ({"gpu": "B17"}, "there is no such profile"),
        ({"memory": -1}, r"memory=-1\): give a GPU's memory in GB"),
        ({"colour": 1}, "a layout has no 'colour'"),
        ({"batch": 0}, "batch=0: give a whole number"),
    ],
)
def test_what_cannot_be_explored_is_refused_in_one_line(arguments, message):
    arguments = {"model": MODEL} | arguments
    with pytest.raises((TypeError, ValueError, Problem), match=message) as caught:
        explore_layouts(arguments.pop("model"), **arguments)
    assert len(str(caught.value).splitlines()) == 1


def test_there_is_no_such_thing_to_move(explorer):
    with pytest.raises(ValueError, match="has no slider 'colour'"):
        explorer.move(colour=1)
