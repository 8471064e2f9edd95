"""Predictions, the live view and the explorer: with widgets, and as the text that stands in for them."""

import ast
import builtins
import subprocess
import sys
import time
from types import SimpleNamespace

import ipywidgets
import nbformat
import pytest
import torch
from torch import nn

import simgpu
from simgpu.profiles import GPUS, LINKS
from tests.support.notebooks import ROOT
from utils.common.cell_tags import FOLDED
from utils.common.settings import WIDGETS
from utils.course.lessons import tidy
from utils.observe.monitor import GpuMonitor, Sample
from utils.schedules.of_layers import LayerCost, schedule
from utils.widgets import explore_split, live, live_view, predict, prediction
from utils.widgets import explorer as explorer_module
from utils.widgets import front_end as front_end_module


@pytest.fixture(autouse=True)
def no_answers(monkeypatch):
    monkeypatch.setattr(prediction, "_answers", {})
    monkeypatch.setattr(prediction, "_boxes", {})
    monkeypatch.setattr(prediction, "_compared", {})


@pytest.fixture
def front_end(monkeypatch):
    """As in a notebook: widgets are made, and what is displayed is kept in a list of bundles."""
    import IPython.display

    shown = []

    class Handle:
        def __init__(self, place):
            self.place = place

        def update(self, data, raw, metadata=None):
            shown[self.place] = data

    def display(data, raw, metadata=None, display_id=None):
        shown.append(data)
        return Handle(len(shown) - 1)

    monkeypatch.setenv("COURSE_WIDGETS", "1")
    monkeypatch.setattr(front_end_module, "in_kernel", lambda: True)
    monkeypatch.setattr(IPython.display, "display", display)
    return shown


# --- predict ----------------------------------------------------------------------------------------------------

WAITS = "Which device waits longer?"
BOTH = ["device0", "device1"]


def test_a_prediction_is_chosen_kept_and_compared(front_end, capsys):
    question = predict(WAITS, BOTH)
    question._ipython_display_()
    assert question.answer is None
    head, field, note = question._box.children
    assert isinstance(field, ipywidgets.RadioButtons)
    assert WAITS in head.value
    field.value = 1  # a click
    assert question.answer == "device1"
    assert "device1" in note.value

    again = predict(WAITS, BOTH)  # the cell runs again
    again._ipython_display_()
    assert again.answer == "device1"
    assert again._field.value == 1
    assert question._box.comm is None, "the first widget should be closed"
    again.compare("device0", "It waits for the first output.")
    assert capsys.readouterr().out == "You predicted: device1. Result: device0.\nIt waits for the first output.\n"


def test_without_an_answer_there_is_no_verdict(capsys):
    predict(WAITS, BOTH).compare(0.123456)
    assert capsys.readouterr().out == "You made no prediction. Result: 0.1235.\n"


@pytest.mark.parametrize(
    ("typed", "answer"), [("12", 12), ("0.5", 0.5), ("6 %", 6), (" about half ", "about half"), ("", None)]
)
def test_a_free_answer_is_a_number_or_text(front_end, typed, answer):
    question = predict("How many?")
    question._ipython_display_()
    question._field.value = typed
    assert question.answer == answer
    assert type(question.answer) is type(answer)


def test_many_options_are_a_list_to_unfold(front_end):
    question = predict("Which layer?", list(range(9)))
    question._ipython_display_()
    assert isinstance(question._field, ipywidgets.Dropdown)
    question._field.value = 4
    assert question.answer == 4


def test_an_answer_given_in_code_moves_the_widget(front_end):
    question = predict(WAITS, BOTH)
    question._ipython_display_()
    question.answer = "device0"
    assert question._field.value == 0
    assert "device0" in question._note.value


def test_an_answer_that_is_no_option_any_more_is_forgotten():
    predict(WAITS, BOTH, key="w").answer = "device1"
    assert predict(WAITS, BOTH, key="w").answer == "device1"
    assert predict(WAITS, ["cpu", "gpu"], key="w").answer is None


def test_the_text_says_what_the_notebook_calls_the_question(monkeypatch):
    question = predict(WAITS, BOTH)
    names = {"Out": {1: question}, "_": question, "_3": question, "waits": question}
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(user_ns=names))
    assert repr(question).endswith("No prediction yet. Run this cell to answer, or write: waits.answer = ...")


def test_without_widgets_the_question_is_text(capsys):
    question = predict(WAITS, BOTH)
    question._ipython_display_()
    out = capsys.readouterr().out
    assert out == f"{question!r}\n"
    assert "  - device0\n  - device1\n" in out
    assert "q.answer = ..." in out
    assert question._box is None
    question.answer = "device1"
    assert "Your prediction: device1" in repr(question)
    with pytest.raises(ValueError, match=r"^'device2' is not one of the answers: 'device0', 'device1'$"):
        question.answer = "device2"
    question.answer = None
    assert question.answer is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("",), "the question must be text"),
        ((WAITS, "device0"), "options must be a list of answers"),
        ((WAITS, []), "options must be a list of answers"),
        ((WAITS, [1, "1"]), "two of these answers look the same"),
    ],
)
def test_questions_that_cannot_be_asked(arguments, message):
    with pytest.raises(ValueError, match=message) as caught:
        predict(*arguments)
    assert len(str(caught.value).splitlines()) == 1


def test_questions_are_shown_as_they_are_written(front_end):
    question = predict("Is 1 < 2 & <b>true</b>?", ["<i>yes</i>"])
    question._ipython_display_()
    question._field.value = 0
    assert "&lt;b&gt;" in question._box.children[0].value
    assert "&lt;i&gt;yes" in question._note.value


# --- where widgets are ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "kernel", "expected"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"PYTEST_VERSION": "9"}, True, False),  # nbval's kernels inherit it
        ({"PYTEST_VERSION": "9", "COURSE_WIDGETS": "1"}, True, True),
        ({"COURSE_WIDGETS": "0"}, True, False),
        ({"COURSE_GRADING": "1"}, True, False),
        ({"COURSE_GRADING": "1", "COURSE_WIDGETS": "1"}, True, False),
    ],
)
def test_when_there_are_widgets(monkeypatch, variables, kernel, expected):
    for name in (*front_end_module.UNATTENDED, WIDGETS):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(front_end_module, "in_kernel", lambda: kernel)
    assert (front_end_module.widgets_here() is not None) == expected


def test_without_ipywidgets_everything_is_text(monkeypatch, capsys):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] in ("ipywidgets", "IPython"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setenv("COURSE_WIDGETS", "1")
    monkeypatch.setattr(builtins, "__import__", without)
    predict(WAITS, BOTH)._ipython_display_()
    with live(Fake()) as view:
        view.tick()
    explore_split(MLP, BATCH, gpu="V100", link="nvlink2")._ipython_display_()
    out = capsys.readouterr().out
    assert WAITS in out
    assert "fake:0 was busy" in out
    assert "ms a step" in out


def test_importing_the_module_imports_no_front_end():
    code = "import sys, utils.widgets as w; print('ipywidgets' in sys.modules, 'matplotlib' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True, cwd=ROOT).split() == ["False", "False"]


def test_only_widgets_of_ipywidgets_7_and_8_are_used():
    """Those of 7.7, as its documentation lists them, and no trait that came or changed its meaning with 8."""
    in_both = {"HTML", "VBox", "HBox", "Layout", "RadioButtons", "Dropdown", "Text", "IntSlider", "SelectionSlider"}
    traits = {"value", "options", "layout", "style", "placeholder", "description", "min", "max", "width", "align_items"}
    traits.add("continuous_update")  # of sliders; in 7.7 as in 8
    made = [
        node
        for path in (ROOT / "utils" / "widgets").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "widgets"
    ]
    assert {"HTML", "IntSlider"} <= {node.func.attr for node in made} <= in_both
    assert {keyword.arg for node in made for keyword in node.keywords} <= traits
    assert all(hasattr(ipywidgets, name) for name in in_both)


def test_a_notebook_runs_under_nbclient_and_keeps_little(monkeypatch):
    from nbclient import NotebookClient

    monkeypatch.setenv("COURSE_WIDGETS", "1")
    cells = [
        "from utils.widgets import predict\nq = predict('How many?', [1, 2])\nq",
        "q.compare(2)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": ROOT}}).execute()
    shown = notebook.cells[0].outputs[0]["data"]
    assert shown["text/plain"].startswith("How many?")
    assert front_end_module.VIEW in shown
    compared = notebook.cells[1].outputs[0]
    assert compared["data"]["text/plain"] == "You made no prediction. Result: 2."
    assert FOLDED not in compared["metadata"], "somebody looks"
    assert len(nbformat.writes(notebook)) < 20_000


def test_an_error_that_is_predicted_and_its_explanation_folded_in_an_unattended_run(monkeypatch, tmp_path):
    from nbclient import NotebookClient

    monkeypatch.setenv("COURSE_WIDGETS", "0")
    (tmp_path / "99.md").write_text("# Lesson 99\n\n## zero\n\nYou cannot *divide* by zero.\n")
    cells = [
        f"from utils.widgets import explanations, outcome, predict, predictions\nimport pathlib\n"
        f"explanations.FOLDER = pathlib.Path({str(tmp_path)!r})\n"
        "q = predict('What does 1 / 0 do?', ['works', 'raises'], why='99/zero')\nq",
        "q.answer = 'works'\n1 / 0",
        "q.compare(outcome())",
        "q.compare(outcome())  # once more",
        "again = predict('And 1 / 1?')\nagain.answer = 'works'",
        "again.compare(outcome())  # before the cell ran",
        "again.answer = 'works'",
        "again.compare(outcome())  # before the cell ran, but the answer was changed",
        "1 / 1",
        "again.compare(outcome())\npredictions()",
    ]
    cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    cells[1].metadata["tags"] = ["raises-exception"]
    cells[2].metadata["tags"] = ["predicted"]
    cells[5].metadata["tags"] = cells[7].metadata["tags"] = ["raises-exception"]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, timeout=60, resources={"metadata": {"path": ROOT}}).execute()
    [compared] = tidy(notebook).cells[2].outputs
    assert notebook.cells[2].execution_count, "nbval refuses a cell that has outputs and never ran"
    assert compared["data"]["text/plain"] == "You predicted: works. Result: raises.\nYou cannot *divide* by zero."
    assert compared["data"]["text/markdown"].startswith("<details><summary>")
    assert notebook.cells[3].outputs[0]["data"]["text/plain"].startswith("You predicted: works. Result: raises.")
    for [refused] in (notebook.cells[5].outputs, notebook.cells[7].outputs):
        assert refused["evalue"] == "No cell has run since the question. Run the cell above, then this one again."
        assert refused["traceback"] == [refused["evalue"]]  # and nothing in red above it
    assert notebook.cells[9].outputs[-1]["data"]["text/plain"].splitlines() == [
        "1 of your 2 predictions came true. The surprises come first:",
        "  What does 1 / 0 do?",
        "    predicted: works; result: raises",
        "  And 1 / 1?",
        "    predicted: works; result: works",
    ]


def test_a_question_whose_explanation_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"utils/widgets/explained/99\.md has no '## nowhere'"):
        predict(WAITS, BOTH, why="99/nowhere")


def test_a_number_comes_true_within_what_the_lesson_allows(monkeypatch):
    question = predict("How many times?")
    for answer, within, came_true in ((3, 0, False), (3, 0.5, True), (2, 0, True), ("many", 0.5, False)):
        question.answer = answer
        question.compare(2, within=within)
        assert question.came_true == came_true, answer


def test_it_says_whether_a_number_was_near_enough(capsys):
    question = predict("How many times?")
    question.compare(4.9, within=0.3)
    for question.answer in (4.9, 4.5, 2, "many"):
        question.compare(4.9, within=0.3)
    assert capsys.readouterr().out.splitlines() == [
        "You made no prediction. Result: 4.9.",
        "You predicted: 4.9. Result: 4.9.",
        "You predicted: 4.5. Result: 4.9. Close enough: within 30% counts as correct.",
        "You predicted: 2. Result: 4.9. Not close enough: within 30% counts as correct.",
        "You predicted: many. Result: 4.9. Not close enough: within 30% counts as correct.",
    ]


# --- live -------------------------------------------------------------------------------------------------------


class Fake:
    """A monitor whose samples are set by hand."""

    source = "simulated: for a test"
    trouble = ()

    def __init__(self):
        self.devices = ["fake:0", "fake:1"]
        self.samples = []
        self.callbacks = []
        self.stopped = 0

    def add(self, *shares, used=2**30 * 6 // 5):
        now = float(len(self.samples))
        self.samples += [Sample(now, d, share, used, 16 * 2**30) for d, share in zip(self.devices, shares, strict=True)]
        for callback in self.callbacks:
            callback(self)

    def latest(self):
        return {sample.device: sample for sample in self.samples}

    def on_sample(self, callback):
        self.callbacks.append(callback)

    def table(self):
        import pandas

        return pandas.DataFrame({"mean": [1, 2]}, index=self.devices)

    def imbalance(self):
        return SimpleNamespace(text="fake:0 was busy 62% of the time.")

    def stop(self):
        self.stopped += 1


def test_the_live_view_has_the_numbers_as_text(front_end, monkeypatch):
    monkeypatch.setattr(live_view, "SECONDS_BETWEEN", 0.0)
    monitor = Fake()
    with live(monitor) as view:
        assert "n/a" in view._html.value  # nothing is known yet
        assert "0 %" not in view._html.value
        monitor.add(62.4, None)
        value = view._html.value
    assert "62 %" in value
    assert "1.2 of 16.0 GiB" in value
    assert value.count("n/a") == 1
    assert "simulated: for a test" in value


def test_the_live_view_moves_at_most_five_times_a_second(front_end, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(live_view.time, "monotonic", lambda: now[0])
    monitor = Fake()
    with live(monitor) as view:
        seen = []
        for step in range(10):  # every 0.1 s, by turns from the sampler and by tick
            monitor.add(float(step), 0.0)
            view.tick()
            seen.append(view._html.value)
            now[0] += 0.1
    assert 4 <= len(set(seen)) <= 6


def test_at_its_end_a_picture_a_table_and_a_line_stay(front_end, capsys):
    monitor = Fake()
    with live(monitor) as view:
        monitor.add(62.0, 31.0)
        html = view._html
        assert front_end_module.VIEW in front_end[0]
    assert monitor.stopped == 1
    picture, table = front_end
    assert {"image/png", "text/plain"} == set(picture)
    assert "<table" in table["text/html"]
    assert capsys.readouterr().out == "fake:0 was busy 62% of the time. (simulated: for a test)\n"
    assert html.comm is None
    monitor.add(1.0, 1.0)  # a sample that comes late changes nothing
    view.tick()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_the_end_stays_also_when_the_loop_raises(front_end, error):
    with pytest.raises(error), live(Fake()):
        raise error
    assert "image/png" in front_end[0]


def test_an_end_that_cannot_be_drawn_hides_no_error(front_end, capsys):
    monitor = Fake()
    monitor.table = lambda: 1 / 0
    with pytest.raises(ValueError, match="mine"), live(monitor):
        raise ValueError("mine")
    assert "could not be drawn: division by zero" in capsys.readouterr().out


@pytest.mark.parametrize("variable", ["COURSE_GRADING", "PYTEST_VERSION"])
def test_an_unattended_run_has_the_end_only(front_end, monkeypatch, variable):
    monkeypatch.delenv("COURSE_WIDGETS")
    monkeypatch.setenv(variable, "1")
    with live(Fake()) as view:
        view.tick()
        assert front_end == []
    assert "image/png" in front_end[0]


def test_with_the_real_monitor_of_simulated_gpus(front_end):
    simgpu.enable(count=2, gpu="Instructional", link="instructional", clock="paced")
    try:
        x = torch.randn(64, 64, device="simgpu:0")
        with GpuMonitor(["simgpu:0", "simgpu:1"], hz=20) as m, live(m) as view:
            until = time.monotonic() + 0.5
            while "simgpu:0" not in m.latest() and time.monotonic() < until:
                x = (x @ x).clamp(-1, 1)
                view.tick()
    finally:
        simgpu.enable(count=2)
    assert "image/png" in front_end[0]
    assert "simgpu:0" in front_end[1]["text/html"]


def test_what_is_no_monitor_is_refused_in_one_line():
    with pytest.raises(TypeError, match=r"^live\(list\): give a monitor: with GpuMonitor.*$"):
        live(["simgpu:0"])


@pytest.mark.parametrize(
    ("used", "total", "text"),
    [
        (None, None, "n/a"),
        (12 * 2**20, 2**30, "12 MiB of 1.0 GiB"),
        (0, 16 * 2**30, "0 MiB of 16.0 GiB"),
        (None, 2**30, "n/a of 1.0 GiB"),
    ],
)
def test_memory_as_text(used, total, text):
    assert live_view._memory(used, total) == text


# --- explore_split ----------------------------------------------------------------------------------------------

MLP = nn.Sequential(*(layer for _ in range(3) for layer in (nn.Linear(512, 512), nn.ReLU())))
BATCH = torch.empty(256, 512)


@pytest.fixture
def explorer():
    return explore_split(MLP, BATCH, gpu="V100", link="nvlink2")


def test_the_explorer_shows_the_schedule_of_its_choice(explorer):
    assert (explorer.cut, explorer.micro_batches) == (3, 4)
    assert explorer.choices == [1, 2, 4, 8, 16]
    explorer.move(cut=2, micro_batches=2)
    assert explorer.timeline == schedule(explorer.costs(2), 2, 2, LINKS["nvlink2"], source=explorer.source)
    copied = 2 * 2 * 128 * 512 * 4  # there and back, two micro-batches of 128 x 512 float32
    assert sum(explorer.timeline.moved().values()) == copied
    assert f"Copied: {copied / 1e6:.3g} MB" in explorer.text
    assert repr(explorer).startswith("device1 starts at layer 2 (of 0 to 5), 2 micro-batches")
    explorer.move(micro_batches=1)
    assert repr(explorer).startswith("device1 starts at layer 2 (of 0 to 5), 1 micro-batch\n")


def test_its_numbers_by_hand(explorer, monkeypatch):
    # Six layers of 1 ms forward and 2 ms backward for two micro-batches; copies of 4.8 MB at 48 GB/s: 102 us.
    costs = {1: [LayerCost(2e-3, 4e-3, 9_600_000)] * 6, 2: [LayerCost(1e-3, 2e-3, 4_800_000)] * 6}
    monkeypatch.setattr(explorer, "_costs", costs)
    explorer.move(cut=3, micro_batches=2)
    # 3 forwards, a copy, 2 x 3 forwards and backwards of device1, a copy, 6 backwards: 3 + .102 + 18 + .102 + 6 ms.
    assert explorer.timeline.span == pytest.approx(27.204e-3)
    assert explorer.one_device == pytest.approx(36e-3)
    assert explorer.text.startswith("27.2 ms a step: 1.32 times as fast as one device")
    assert "Idle: device0 34%, device1 34%, overall 34%" in explorer.text
    assert "launch" not in explorer.text


def test_it_says_when_the_host_is_the_bound():
    tiny = nn.Sequential(*(nn.Linear(8, 8) for _ in range(4)))
    assert "One host would need about" in explore_split(tiny, torch.empty(16, 8), gpu="V100").text


def test_the_sliders_move_it(front_end, explorer):
    explorer._ipython_display_()
    assert {"image/png", "text/plain", front_end_module.VIEW} == set(front_end[0])
    cut, micro = explorer._sliders
    picture, text = explorer._picture_html.value, explorer._text_html.value
    cut.value = 5
    assert explorer.cut == 5
    micro.value = 8
    assert explorer.micro_batches == 8
    assert picture != explorer._picture_html.value
    assert text != explorer._text_html.value
    assert "alt='Timeline over" in explorer._picture_html.value
    assert "1 ReLU" in explorer._strip_html.value


def test_a_picture_that_is_not_yet_that_of_the_sliders_is_told_from_one_that_is(front_end, explorer, monkeypatch):
    explorer._ipython_display_()
    shown, move = [], explorer.move
    monkeypatch.setattr(explorer, "move", lambda **to: (shown.append(explorer._text_html.value), move(**to)))
    explorer._sliders[0].value = 5
    assert shown == ["Computing ..."]
    assert "ms a step" in explorer._text_html.value
    assert explorer._picture(quick=True).figure.axes[0].get_title(loc="left") == "Cut 5, 4 micro-batches"


def test_a_micro_batch_that_a_layer_refuses_is_said_and_changes_nothing(front_end):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    explorer = explore_split(model, torch.empty(2, 4), gpu="V100", micro_batches=1)
    explorer._ipython_display_()
    explorer._sliders[1].value = 2
    assert "layer 1 BatchNorm1d cannot take a batch of shape (1, 4)" in explorer._text_html.value
    assert explorer.micro_batches == 1


def test_without_widgets_a_table_of_a_few_cuts(explorer, capsys):
    explorer._ipython_display_()
    out = capsys.readouterr().out
    assert "device1 starts at layer 3 (of 0 to 5), 4 micro-batches" in out
    assert explorer.text in out
    assert "MB copied" in out
    assert "backward as 2 x forward" in out
    assert list(explorer.table().index) == [1, 2, 3, 4, 5]


def test_long_models_get_a_short_table():
    long = nn.Sequential(*(nn.Linear(8, 8) for _ in range(60)))
    said = explore_split(long, torch.empty(16, 8), gpu="V100")._some_cuts()
    assert len(said.splitlines()) <= explorer_module.SHOWN_CUTS + 5


def test_it_takes_the_simulated_machines_hardware_and_leaves_it_alone():
    simgpu.enable(count=2, gpu="A100", link="nvlink3")
    try:
        before = len(simgpu.log()), simgpu.now()
        explorer = explore_split(MLP, BATCH, devices=["simgpu:0", "simgpu:1"])
        assert "2 x A100, nvlink3" in explorer.source
        assert explorer.timeline.devices == ("simgpu:0", "simgpu:1")
        assert before == (len(simgpu.log()), simgpu.now())
    finally:
        simgpu.enable(count=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": nn.Linear(2, 2)}, r"explore_split\(Linear\): give an nn.Sequential or a list of at least two"),
        ({"model": nn.Sequential(nn.ReLU())}, "at least two layers"),
        ({"x": [1.0]}, r"x must be a tensor with one batch"),
        ({"x": torch.tensor(1.0)}, r"x must be a tensor with one batch"),
        ({"x": torch.empty(4, 7)}, r"layer 0 Linear cannot take a batch of shape \(4, 7\)"),
        ({"devices": 3}, r"devices=3\): it draws two devices"),
        ({"cut": 6}, r"cut=6\): give 1 to 5 for 6 layers"),
        ({"micro_batches": 3}, r"micro_batches=3\): a batch of 256 splits into 1, 2, 4, 8, 16"),
        ({"gpu": "B17"}, "there is no such profile"),
    ],
)
def test_what_cannot_be_explored_is_refused_in_one_line(arguments, message):
    arguments = {"model": MLP, "x": BATCH, "gpu": "V100"} | arguments
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        explore_split(arguments.pop("model"), arguments.pop("x"), **arguments)
    assert len(str(caught.value).splitlines()) == 1


def test_a_batch_of_a_prime_number_can_be_explored():
    assert explore_split(MLP, torch.empty(13, 512), gpu=GPUS["T4"]).choices == [1, 13]
