"""Questions, the live view and the explorer in a real JupyterLab: clicked, moved by keyboard, watched."""

import sys

import nbformat
import pytest
from conftest import ROOT

pytestmark = [
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="the browser tests use Debian's chromium: run them on Linux"
    ),
]


def cell_of_lesson_07(words: str) -> str:
    """The one cell that has these words in it."""
    lesson = nbformat.read(ROOT / "notebooks" / "07_choose_the_cut.ipynb", as_version=4)
    [found] = [cell.source for cell in lesson.cells if cell.cell_type == "code" and words in cell.source]
    return found


SETUP = """
import time

import torch
from torch import nn

from utils import simgpu
from utils.monitor import GpuMonitor
from utils.widgets import explore_split, live, predict
"""
QUESTION = 'q = predict("Which device waits longer?", ["device0", "device1", "both the same"])\nq'
COMPARE = 'q.compare("both the same", "Each waits for the other.")'
FREE = 'n = predict("How many copies?")\nn'
COMPARE_FREE = "n.compare(2)"
# The explorer of lesson 07, as it stands there.
EXPLORE = f"""
from torchvision.models import resnet50

simgpu.enable(count=2, gpu="GP100", link="pcie3", compute=False)
{cell_of_lesson_07("def layers_of(")}
{cell_of_lesson_07("explore_split(layers, batch, cut=11")}
"""
LIVE = """
simgpu.enable(count=2, gpu="Instructional", link="instructional", clock="paced")
layer0 = nn.Linear(256, 256).to("simgpu:0")
layer1 = nn.Linear(256, 1).to("simgpu:1")
x = torch.randn(64, 256).to("simgpu:0")

with GpuMonitor(["simgpu:0", "simgpu:1"]) as m, live(m) as view:
    began = time.perf_counter()
    while (now := time.perf_counter() - began) < 3:
        loss = layer1(layer0(x).relu().to("simgpu:1")).square().mean()
        loss.backward()
        torch.simgpu.synchronize("simgpu:0")
        time.sleep(0.002 * (1 + int(now)))  # less and less busy
        view.tick()
"""
CELLS = (SETUP, QUESTION, COMPARE, FREE, COMPARE_FREE, EXPLORE, LIVE)
PERCENT = ".course-percent"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from browser.lab import copy_of_the_course

    folder = copy_of_the_course(tmp_path_factory.mktemp("course"))
    cells = [nbformat.v4.new_code_cell(cell.strip(), id=f"cell{number}") for number, cell in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "notebooks" / "widgets.ipynb")
    return folder


@pytest.fixture(scope="module")
def address(folder):
    from browser.lab import jupyterlab

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_WIDGETS", "1")  # somebody looks, though pytest runs
        with jupyterlab(folder) as url:
            yield url


@pytest.fixture(scope="module")
def page(address):
    from browser.lab import browser_page, open_notebook

    with browser_page() as page:
        open_notebook(page, address, "notebooks/widgets.ipynb")
        run(page, SETUP)
        yield page


def start(page, source) -> int:
    """Run the cell with this source, without waiting for it; returns its number."""
    number = CELLS.index(source)
    page.evaluate(
        """number => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = number;
            notebook.scrollToItem(number, 'start');
            window.ran = false;
            window.jupyterapp.commands.execute('notebook:run-cell').then(() => { window.ran = true; });
        }""",
        number,
    )
    return number


def run(page, source) -> str:
    """Run a cell; returns the text of its outputs."""
    number = start(page, source)
    page.wait_for_function("window.ran", timeout=60_000)
    return text_of(page, number)


def text_of(page, number) -> str:
    from browser.lab import cells

    outputs = cells(page)[number]["outputs"]
    assert not [o for o in outputs if o["output_type"] == "error"], outputs
    return "".join("".join(output.get("text") or output["data"].get("text/plain", "")) for output in outputs)


def outputs_of(page, source):
    return page.locator(".jp-Notebook-cell").nth(CELLS.index(source)).locator(".jp-OutputArea-output")


def test_a_question_is_answered_by_a_click_and_compared(page, tmp_path):
    run(page, QUESTION)
    page.get_by_label("device1", exact=True).click()
    outputs_of(page, QUESTION).get_by_text("Your prediction: device1").wait_for()
    said = run(page, COMPARE)
    assert said == "You predicted: device1. It is: both the same.\nEach waits for the other."
    run(page, QUESTION)  # again: the answer is still there
    assert page.get_by_label("device1", exact=True).is_checked()
    page.screenshot(path=tmp_path / "question.png")


def test_a_free_answer_is_typed(page):
    run(page, FREE)
    outputs_of(page, FREE).locator("input").fill("3")
    outputs_of(page, FREE).get_by_text("Your prediction: 3").wait_for()
    assert run(page, COMPARE_FREE) == "You predicted: 3. It is: 2."


def test_a_slider_of_the_explorer_is_moved_by_keyboard(page, tmp_path):
    run(page, EXPLORE)
    outputs = outputs_of(page, EXPLORE)
    text, picture = outputs.locator(".course-split"), outputs.locator(".jupyter-widgets img")
    text.wait_for()
    before = text.inner_text(), picture.get_attribute("src"), picture.get_attribute("alt")
    assert "ms a step" in before[0]
    handle = outputs.locator(".noUi-handle").first
    handle.focus()
    handle.press("ArrowRight")
    page.wait_for_function(
        "old => document.querySelector('.course-split').innerText !== old", arg=before[0], timeout=20_000
    )
    assert picture.get_attribute("src") != before[1]
    assert picture.get_attribute("alt") != before[2]
    assert picture.evaluate("element => element.complete && element.naturalWidth > 0")
    page.screenshot(path=tmp_path / "explorer.png")


def test_the_live_view_moves_while_the_cell_runs_and_its_end_stays(page, folder, tmp_path):
    number = start(page, LIVE)
    page.locator(PERCENT).first.wait_for(timeout=20_000)
    seen = page.evaluate(
        """async () => {
            const seen = new Set();
            while (!window.ran) {
                const shown = document.querySelector('.course-percent');
                if (shown) seen.add(shown.innerText);
                await new Promise(resolve => setTimeout(resolve, 50));
            }
            return [...seen];
        }"""
    )
    assert len([value for value in seen if value.endswith("%")]) >= 3, seen
    assert "was busy" in text_of(page, number)
    outputs = outputs_of(page, LIVE)
    outputs.locator("img").wait_for()
    outputs.locator("table").wait_for()
    assert page.locator(PERCENT).count() == 0, "the live part should be gone"
    page.screenshot(path=tmp_path / "live_end.png")

    page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    saved = nbformat.read(folder / "notebooks" / "widgets.ipynb", as_version=4).cells[number].outputs
    kinds = [set(output.data) for output in saved if output.output_type == "display_data"]
    assert kinds == [{"image/png", "text/plain"}, {"text/html", "text/plain"}], "no widget that nobody can show"
    assert len(str(saved)) < 300_000
