"""The pictures in docs/images, taken of a real JupyterLab: run by hand where the pictures change.

    PYTHONPATH=. .venv/bin/python tests/browser/screenshots.py

Each cell below is run and photographed in the light and in the dark theme, 1200 pixels wide; the game as a page, too.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import nbformat
from PIL import Image

from tests.browser.lab import browser_page, copy_of_the_course, jupyterlab, open_notebook
from tests.support.notebooks import ROOT
from utils.widgets.game.page import page as game_page

IMAGES = ROOT / "docs" / "images"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
MOST_BYTES = 150_000
WIDTH, SCALE = 960, 1.25  # CSS pixels, and device pixels for each: 1200
COLOURS = 128

SETUP = """
import torch
from torch import nn

import simgpu
from utils.observe import plots
from utils.observe.devices import synchronize
from utils.observe.monitor import GpuMonitor
from utils.observe.trace import micro_batch, record
from utils.widgets import explore_split, live, schedule_game

device0, device1 = "simgpu:0", "simgpu:1"
torch.set_num_threads(1)
simgpu.enable(count=2, gpu="V100", link="pcie3", compute=False)
"""
TIMELINE = """
stage0 = nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 2048)).to(device0)
stage1 = nn.Sequential(nn.Linear(2048, 4096), nn.ReLU(), nn.Linear(4096, 2048)).to(device1)
batch = torch.randn(4096, 2048).to(device0)

with record() as timeline:
    losses = []
    for number, x in enumerate(batch.chunk(4)):
        with micro_batch(number):
            losses.append(stage1(stage0(x).to(device1)).square().mean())
    sum(losses).backward()

plots.timeline(timeline)
"""
EXPLORER = """
layers = [layer for _ in range(4) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
explore_split(nn.Sequential(*layers, nn.Linear(2048, 1000)), torch.empty(4096, 2048), cut=3)
"""
GAME = """
game = schedule_game(level=5)
for move in "0F 0F 0F 1F 2F 2I 1F 1I 2F 2I 0I 0W 0F 1F 1I 2F 2I 1W 0I 0W 1F 2W 2F".split():
    game.move(f"{move[0]} {move[1]}")
game.move("1 W2")
game
"""
# Before the live view, and not in the picture.
PACED = """
simgpu.enable(count=2, gpu="Instructional", link="instructional", clock="paced")
stage0, stage1 = nn.Linear(512, 512).to(device0), nn.Linear(512, 512).to(device1)
batch = torch.randn(256, 512).to(device0)


def train_step(pieces):
    losses = [stage1(stage0(x).to(device1)).square().mean() for x in batch.chunk(pieces)]
    sum(losses).backward()
    synchronize(device1)
    synchronize(device0)
"""
MONITOR = """
with GpuMonitor([device0, device1]) as m, live(m) as view:
    for micro_batches in (1, 2, 4):
        for step in range(20):
            train_step(micro_batches)
            view.tick()
"""
CELLS = (SETUP, TIMELINE, EXPLORER, GAME, PACED, MONITOR)
LAST_STEPS = "document.querySelectorAll('.course-percent').length === 2 && performance.now() - window.began > 5600"


def main() -> None:
    os.environ["COURSE_WIDGETS"] = "1"
    IMAGES.mkdir(parents=True, exist_ok=True)
    phone(IMAGES / "game-phone.png")
    with tempfile.TemporaryDirectory() as folder:
        folder = copy_of_the_course(Path(folder))
        cells = [nbformat.v4.new_code_cell(cell.strip(), id=f"cell{number}") for number, cell in enumerate(CELLS)]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=kernel), folder / "notebooks" / "shots.ipynb")
        with jupyterlab(folder) as address, browser_page(device_scale_factor=SCALE) as page:
            page.set_viewport_size({"width": WIDTH, "height": 1000})
            open_notebook(page, address, "notebooks/shots.ipynb")
            page.evaluate("() => window.jupyterapp.commands.execute('application:toggle-left-area')")
            beside = WIDTH - page.locator(".jp-WindowedPanel-outer").bounding_box()["width"]
            page.set_viewport_size({"width": round(WIDTH + beside), "height": 1000})
            for name, theme in THEMES.items():
                page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
                page.wait_for_timeout(2000)  # styles load
                run(page, SETUP)
                run(page, TIMELINE)
                photograph(page, TIMELINE, IMAGES / f"timeline-{name}.png")
                run(page, EXPLORER)
                photograph(page, EXPLORER, IMAGES / f"explorer-{name}.png")
                run(page, GAME)
                photograph(page, GAME, IMAGES / f"game-{name}.png")
                run(page, PACED)
                run(page, MONITOR, wait=False)
                page.wait_for_function(LAST_STEPS, timeout=60_000)
                photograph(page, MONITOR, IMAGES / f"monitor-{name}.png")
                page.wait_for_function("window.ran", timeout=60_000)


def phone(path: Path) -> None:
    """The page of the game on a phone, in the dark: a level beyond par."""
    with tempfile.TemporaryDirectory() as folder, browser_page(device_scale_factor=2, color_scheme="dark") as page:
        file = Path(folder) / "game.html"
        file.write_text(game_page(), encoding="utf-8")
        page.set_viewport_size({"width": 360, "height": 640})
        page.goto(file.as_uri())
        page.get_by_label("Level").select_option("4")
        page.locator(".sg-board").focus()
        for key in ("f", "f", "ArrowDown", *"fifiww", "ArrowUp", *"iwiw"):
            page.keyboard.press(key)
        page.screenshot(path=path, full_page=True)
    fewer_colours(path)


def run(page, source: str, wait: bool = True) -> None:
    """Run one cell and select one far from it, so that no frame and no buttons are in the picture."""
    page.evaluate(
        """number => {
            const notebook = window.jupyterapp.shell.currentWidget.content;
            notebook.activeCellIndex = number;
            window.ran = false;
            window.began = performance.now();
            window.jupyterapp.commands.execute('notebook:run-cell').then(() => { window.ran = true; });
            notebook.activeCellIndex = number > 1 ? 0 : notebook.widgets.length - 1;
            notebook.scrollToItem(number, 'start');
        }""",
        CELLS.index(source),
    )
    if wait:
        page.wait_for_function("window.ran", timeout=120_000)
        page.wait_for_timeout(1000)  # what is shown last is drawn


def photograph(page, source: str, path: Path) -> None:
    """A cell with its output, as wide as the window."""
    box = page.locator(".jp-Notebook-cell").nth(CELLS.index(source)).bounding_box()
    left = page.locator(".jp-WindowedPanel-outer").bounding_box()["x"]
    clip = {"x": left, "y": box["y"], "width": WIDTH, "height": box["height"]}
    page.screenshot(path=path, clip=clip)
    fewer_colours(path)


def fewer_colours(path: Path) -> None:
    """Make a picture small enough for a repository."""
    with Image.open(path) as image:
        few = image.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {few.width} x {few.height}, {size / 1000:.0f} kB")
    if size > MOST_BYTES:
        raise SystemExit(f"{path.name} has {size} bytes: more than {MOST_BYTES}")


if __name__ == "__main__":
    main()
