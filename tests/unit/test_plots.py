"""Pictures: what they say in words, that the source is in them, that they are legible in light and dark."""

import base64
import io
from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib import image
from matplotlib.colors import to_hex

from utils.observe import plots
from utils.observe.trace import Event, Timeline

SOURCE = "simulated: 2 x V100, nvlink2, virtual clock"


COMMUNICATION = ("all_gather", "reduce_scatter", "all_reduce", "broadcast_e")


def kernel(device, start, end, phase="forward", label=""):
    return Event(f"simgpu:{device}", 0, "work", "kernel", phase, start, end, label=label)


def staircase():
    copy = Event("simgpu:0", 0, "copy", "d2d", "forward", 0.002, 0.003, other="simgpu:1")
    events = (
        kernel(0, 0.0, 0.002, label="0"),
        copy,
        kernel(1, 0.003, 0.008, "backward"),
        kernel(0, 0.008, 0.01, "optimizer"),
    )
    return Timeline(("simgpu:0", "simgpu:1"), events, 0.0, 0.01, SOURCE)


def monitored():
    def sample(time, device, percent):
        return SimpleNamespace(time=time, device=device, utilization=percent)

    samples = [sample(0.1, "simgpu:0", 60.0), sample(0.2, "simgpu:0", 40.0), sample(0.1, "simgpu:1", None)]
    return SimpleNamespace(devices=["simgpu:0", "simgpu:1"], samples=samples, source="simulated: paced clock")


PICTURES = {
    "timeline": lambda: plots.timeline(staircase(), "A naive split"),
    "utilization": lambda: plots.utilization(monitored()),
    "memory": lambda: plots.memory({"simgpu:0": (3 * 2**30, 16 * 2**30), "simgpu:1": (2**30, 16 * 2**30)}, SOURCE),
    "sweep": lambda: plots.sweep(
        [1, 12, 60],
        {"pipeline": [(3.0, 0.1), (1.2, 0.1), (1.6, 0.1)]},
        SOURCE,
        bound=[1, 1, 1],
        x_label="split",
        y_label="s",
    ),
    "bars": lambda: plots.bars({"one GPU": (1.0, 0.02), "split": 1.07}, SOURCE, y_label="seconds"),
}
# What the summary has to say, computed by hand.
SUMMARIES = {
    "timeline": f"simgpu:0 idle 60%, simgpu:1 idle 50% of 10 ms ({SOURCE}).",
    "utilization": "Utilization: simgpu:0: mean 50%, highest 60%; simgpu:1: n/a (simulated: paced clock).",
    "memory": f"Memory: simgpu:0: 3.00 of 16.0 GiB; simgpu:1: 1.00 of 16.0 GiB ({SOURCE}).",
    "sweep": f"s by split. pipeline: 1.2 at 12 is best ({SOURCE}).",
    "bars": f"seconds. one GPU: 1 ± 0.02; split: 1.07 ({SOURCE}).",
}


def texts(figure):
    return [text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))]


def test_a_step_of_more_than_a_second_is_told_in_plain_numbers():
    long = Timeline(("simgpu:0",), (kernel(0, 0.2, 1.4567),), 0.0, 1.4567, SOURCE)
    picture = plots.timeline(long)
    assert "of 1457 ms" in picture.summary
    assert "forward from 200 to 1457 ms" in picture.alt
    assert "e+03" not in picture.alt + picture.summary


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_says_the_same_in_words_and_names_its_source(name):
    picture = PICTURES[name]()
    assert picture.summary == SUMMARIES[name]
    assert picture.summary.split(" (")[0].split(": ", 1)[-1] in picture.alt
    source = "simulated: paced clock" if name == "utilization" else SOURCE
    assert source in texts(picture.figure)


@pytest.mark.parametrize("name", PICTURES)
def test_a_notebook_gets_a_png_on_white_with_an_alternative_text(name, capsys):
    data, metadata = PICTURES[name]()._repr_mimebundle_()
    pixels = image.imread(io.BytesIO(base64.b64decode(data["image/png"])))
    assert (pixels[0, 0, :3] == 1).all()  # the ground is white in dark themes too
    assert pixels.shape[1] == plots.WIDTH * plots.DPI
    assert metadata["image/png"]["alt"] == data["text/plain"]


def test_collectives_of_fsdp_are_told_apart_and_carry_labels():
    def talk(name, start, end):
        return Event("simgpu:0", 0, name, "comm", "backward", start, end, other="ranks 0 and 1", label=name[-1])

    events = (kernel(0, 0.0, 0.01), *(talk(name, k / 500, k / 500 + 0.001) for k, name in enumerate(COMMUNICATION)))
    axes = plots.timeline(Timeline(("simgpu:0",), events, 0.0, 0.01, SOURCE)).figure
    assert [text.get_text() for text in axes.legends[0].get_texts()] == [
        "forward",
        "all-gather",
        "reduce-scatter",
        "communication",
    ]
    assert {"r", "e"} <= {text.get_text() for text in axes.axes[0].texts}  # the labels of all four


def test_phases_differ_without_colour_too():
    collectives = [style for _, style in plots.COLLECTIVES.values()]
    styles = [*plots.PHASE_STYLE.values(), plots.COPY_STYLE, plots.TALK_STYLE, *collectives]
    assert len({style["hatch"] for style in styles}) == len(styles)
    assert len({(line, marker) for _, line, marker in plots.LINES}) == len(plots.LINES)


def test_the_timeline_draws_each_phase_where_it_was():
    axes = PICTURES["timeline"]().figure.axes[0]
    drawn = {}
    for bars in axes.collections:
        box = bars.get_paths()[0].get_extents()
        drawn[bars.get_hatch() or "", round(box.y0 + 0.31)] = (round(box.x0, 6), round(box.x1, 6))
    assert drawn["", 0] == (0, 2)
    assert drawn["///", 1] == (3, 8)
    assert drawn["...", 0] == (8, 10)
    assert drawn["xxx", 0] == (2, 3)
    assert "idle 60%" in texts(axes.figure)
    assert "0" in texts(axes.figure)  # the micro-batch


def test_two_copies_in_a_row_are_drawn_as_two_and_specks_as_one():
    def copy(start, end):
        return Event("simgpu:0", 0, "copy", "d2d", "forward", start, end, other="simgpu:1")

    specks = [copy(0.006 + n * 1e-6, 0.006 + (n + 1) * 1e-6) for n in range(100)]
    events = (kernel(0, 0.0, 0.002), copy(0.002, 0.003), copy(0.003, 0.004), *specks)
    drawn = plots.timeline(Timeline(("simgpu:0",), events, 0.0, 0.01, SOURCE)).figure.axes[0].collections
    boxes = [path.get_extents() for bars in drawn if is_green(bars) for path in bars.get_paths()]
    assert sorted((round(box.x0, 3), round(box.x1, 3)) for box in boxes) == [(2, 3), (3, 4), (6, 6.1)]


def is_green(bars):
    return to_hex(bars.get_facecolor()[0]).upper() == plots.GREEN


def test_a_piece_too_short_to_be_seen_is_drawn_wide_enough_and_not_hidden_by_an_edge():
    events = (kernel(0, 0.0, 0.005), kernel(0, 0.007, 0.007002), kernel(0, 0.009, 0.01))
    drawn = plots.timeline(Timeline(("simgpu:0",), events, 0.0, 0.01, SOURCE)).figure.axes[0].collections
    specks = {
        bars.get_linewidth()[0]: box.width
        for bars in drawn
        for box in (path.get_extents() for path in bars.get_paths())
        if 7 <= box.x0 < 8
    }
    assert specks == {0: pytest.approx(10 / 500)}


def test_a_sweep_over_whole_numbers_has_its_marks_at_whole_numbers():
    axes = plots.sweep(range(1, 6), {"loss": [5, 4, 3, 2, 1]}, SOURCE).figure.axes[0]
    assert all(mark == int(mark) for mark in axes.get_xticks())


def test_timelines_of_different_length_can_share_an_axis():
    axes = plots.timeline(staircase(), until=0.02).figure.axes[0]
    assert axes.get_xlim()[1] > 20 > PICTURES["timeline"]().figure.axes[0].get_xlim()[1]


def test_saving(tmp_path):
    PICTURES["bars"]().save(tmp_path / "bars.png")
    assert (tmp_path / "bars.png").stat().st_size > 5000


def test_the_line_below_a_picture_breaks_between_words(capsys):
    picture = plots.Picture(None, "alt", " ".join(["virtual-clock"] * 40))
    picture._repr_mimebundle_ = lambda: ({"text/plain": "alt"}, {})
    picture._ipython_display_()
    lines = capsys.readouterr().out.splitlines()[-6:]
    assert max(map(len, lines)) <= plots.COLUMNS
    assert {word for line in lines for word in line.split()} == {"virtual-clock"}


def test_an_error_bar_does_not_reach_below_zero():
    pictures = (
        plots.bars({"noisy": (8.3, 9.3), "less": (-5.0, 2.0)}, SOURCE),
        plots.sweep([1, 2], {"noisy": [(8.3, 9.3), (-5.0, 2.0)]}, SOURCE),
    )
    for picture in pictures:
        bars = picture.figure.axes[0].collections
        ends = sorted(tuple(segment[:, 1]) for bar in bars for segment in bar.get_segments())
        np.testing.assert_allclose(ends, [(-7.0, -3.0), (0.0, 17.6)])


def test_a_sweep_may_have_no_best_and_a_logarithmic_axis():
    picture = plots.sweep([1, 64], {"whole": [2.0, 9.0]}, SOURCE, x_label="batch", y_label="s", best=None, log=True)
    assert picture.summary == f"s by batch. whole: 2 at 1, 9 at 64 ({SOURCE})."
    axes = picture.figure.gca()
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "64"]
