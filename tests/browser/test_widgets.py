"""Questions, the live view, the explorer and the game in a real JupyterLab: clicked, moved by keyboard, watched."""

import sys

import nbformat
import pytest

from tests.support.notebooks import ROOT
from utils.widgets.game.levels import LEVELS

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

import simgpu
from utils.observe.monitor import GpuMonitor
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
GAME = "from utils.widgets import schedule_game\n\ngame = schedule_game(level=1)\ngame"
LAST_MOVE = 'print(game.move("0 B0.1"))'
RUN_YOURS = """
from utils.schedules import run

stages = [nn.Linear(3, 3) for _ in range(2)]
loss = run(game.schedule, stages, torch.randn(4, 3), torch.randn(4, 3), nn.functional.mse_loss, ["cpu", "cpu"])
print(stages[0].weight.grad is not None, loss.shape)
"""
CELLS = (SETUP, QUESTION, COMPARE, FREE, COMPARE_FREE, EXPLORE, LIVE, GAME, LAST_MOVE, RUN_YOURS)
PERCENT = ".course-percent"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.browser.lab import copy_of_the_course

    folder = copy_of_the_course(tmp_path_factory.mktemp("course"))
    cells = [nbformat.v4.new_code_cell(cell.strip(), id=f"cell{number}") for number, cell in enumerate(CELLS)]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "notebooks" / "widgets.ipynb")
    return folder


@pytest.fixture(scope="module")
def address(folder):
    from tests.browser.lab import jupyterlab

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_WIDGETS", "1")  # somebody looks, though pytest runs
        with jupyterlab(folder) as url:
            yield url


@pytest.fixture(scope="module")
def page(address):
    from tests.browser.lab import browser_page, open_notebook

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
    from tests.browser.lab import cells

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
    assert said == "You predicted: device1. Result: both the same.\nEach waits for the other."
    run(page, QUESTION)  # again: the answer is still there
    assert page.get_by_label("device1", exact=True).is_checked()
    page.screenshot(path=tmp_path / "question.png")


def test_a_free_answer_is_typed(page):
    run(page, FREE)
    outputs_of(page, FREE).locator("input").fill("3")
    outputs_of(page, FREE).get_by_text("Your prediction: 3").wait_for()
    assert run(page, COMPARE_FREE) == "You predicted: 3. Result: 2."


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
    page.wait_for_function(  # it is not there while "Computing ..." is
        """old => {
            const text = document.querySelector('.course-split');
            return text && text.innerText !== old;
        }""",
        arg=before[0],
        timeout=20_000,
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
    assert kinds == [{"image/png", "text/plain"}, {"text/html", "text/plain"}], "no widget that cannot be shown"
    assert len(str(saved)) < 300_000


# --- the game -------------------------------------------------------------------------------------------------------


def press(page, keys: str, said: str) -> str:
    """Press keys on whatever has the focus, until the game has answered; returns all of its answer."""
    for key in keys.split():
        page.keyboard.press(key)
    answer = page.locator(".sg-said").filter(has_text=said)
    answer.wait_for(timeout=20_000)
    return answer.inner_text()


def test_the_first_level_by_keyboard_alone_in_a_notebook(page):
    from tests.browser.lab import cells

    run(page, GAME)
    page.locator(".schedule-game select").focus(timeout=20_000)
    page.keyboard.press("Tab")  # undo, hint, start over, the board
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "sg-board"
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"

    refused = press(page, "b", "cannot")
    assert (
        refused
        == "rank 0 cannot do B0.0 as its first action: it needs its forward pass, F0.0, which it has not done yet"
    )
    assert page.locator(".sg-cell").count() == 0
    assert len(cells(page)) == len(CELLS), "B was for the game, not for JupyterLab, which would insert a cell"

    press(page, "f f", "F0.1 on rank 0, from 1 to 2.")
    press(page, "u", "undone")
    press(page, "h", "Hint 1 of 3: ")
    press(page, "f ArrowDown 1 f", "F1.1 on rank 1, from 2 to 3.")
    press(page, "Backspace f", "F1.0 on rank 1, from 1 to 2.")
    press(page, "b f b ArrowUp b", "B0.0 on rank 0, from 4 to 6.")
    assert "Time 7. Bubble 29%, and at least 25% when complete." in page.locator(".sg-line").inner_text()
    assert run(page, LAST_MOVE).startswith("B0.1 on rank 0, from 7 to 9. Complete in 9. That is par (GPipe: 9)")
    page.locator(".sg-done").wait_for(timeout=20_000)  # what Python does is seen, too
    assert "Time 9. Bubble 33%. Held at most: rank 0: 2, rank 1: 1." in page.content()
    assert run(page, RUN_YOURS) == "True torch.Size([])\n"


def test_a_click_beside_the_buttons_is_enough_for_keys_in_a_notebook(page):
    from tests.browser.lab import cells

    page.locator(".schedule-game .sg-line").click()
    press(page, "u", "undone")
    press(page, "b", "B0.1 on rank 0, from 7 to 9.")
    assert len(cells(page)) == len(CELLS)


def test_one_level_beyond_par_by_keyboard_at_360_pixels_in_a_notebook(page):
    page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
    page.set_viewport_size({"width": 360, "height": 740})
    page.locator(".schedule-game select").focus()
    for level in range(2, 5):
        page.keyboard.press("ArrowDown")
        page.locator(".schedule-game").get_by_text(f"Par {LEVELS[level - 1].par:g}").first.wait_for(timeout=20_000)
    for _ in range(4):
        page.keyboard.press("Tab")
    told = press(page, "f f ArrowDown f i f i w w ArrowUp i w i w", "Complete")
    assert told.endswith("Complete in 7. 2 below par (1F1B: 9); no shorter one is known.")
    assert page.evaluate("(e => e.scrollWidth <= e.clientWidth)(document.querySelector('.schedule-game'))")
