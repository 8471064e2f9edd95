"""A student of a class's hub in a real Chromium: the login page, JupyterLab in their room, a lab, the button."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from playwright.sync_api import Page

from .lab import SECONDS, browser_page, end_kernels, open_notebook, run_all, what_is_wrong

# A line for jupyterhub_config.py: these helpers look at what JupyterLab holds.
SHOWN = 'c.Spawner.args += ["--LabApp.expose_app_in_browser=True"]\n'
# Notes the milliseconds until the first cell of code has run, wherever the rest is by then.
WATCH_THE_FIRST = """async () => {
    await window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs');
    const panel = window.jupyterapp.shell.currentWidget, began = performance.now();
    const first = () => panel.content.model.sharedModel.cells.find(cell => cell.cell_type === 'code' && cell.source);
    delete window.firstRan;
    const looks = setInterval(() => {
        if (!first().execution_count) return;
        window.firstRan = performance.now() - began;
        clearInterval(looks);
    }, 50);
}"""
WRITE = """async sources => {
    const cells = window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells;
    sources.forEach((source, number) => cells[number].setSource(source));
    await window.jupyterapp.commands.execute('docmanager:save');
}"""


@dataclass
class BrowserStudent:
    """One login in a browser of its own. `address` is the hub's, without a slash at its end."""

    address: str
    login: str
    page: Page

    @property
    def lab(self) -> str:
        return f"{self.address}/user/{self.login}/lab?"

    def log_in(self, password: str) -> None:
        """Fill in the form of the login page. The hub starts the server, and shows that it does."""
        self.page.goto(f"{self.address}/hub/login")
        self.page.fill("input[name=username]", self.login)
        self.page.fill("input[name=password]", password)
        self.page.click("input[type=submit]")

    def wait_for_the_server(self, within: float = 600) -> float:
        """Until JupyterLab is there. Returns the seconds it took."""
        began = time.monotonic()
        self.page.wait_for_url(f"**/user/{self.login}/lab**", timeout=within * SECONDS)
        self.page.wait_for_function("window.jupyterapp !== undefined", timeout=within * SECONDS)
        return time.monotonic() - began

    def open(self, notebook: str) -> None:
        open_notebook(self.page, self.lab, notebook)

    def run_all(self, within: float = 600) -> float:
        """Run the open notebook, each cell of which has to do as it is meant. Returns the seconds to its first."""
        self.page.evaluate(WATCH_THE_FIRST)
        ran = [cell for cell in run_all(self.page, within) if cell["type"] == "code"]
        wrong = [told for told in map(what_is_wrong, ran) if told]
        assert not wrong, wrong[0]
        return self.page.evaluate("window.firstRan") / 1000

    def write(self, sources: list[str]) -> None:
        """Give the first cells of the open notebook these sources, and save."""
        self.page.evaluate(WRITE, sources)

    def hand_in(self, within: float = 60) -> str:
        """Press the button below the lab. Returns the receipt."""
        button = self.page.get_by_role("button", name="Hand in lab")
        button.scroll_into_view_if_needed()
        button.click()
        receipt = self.page.get_by_text("Handed in: lab")
        receipt.first.wait_for(timeout=within * SECONDS)
        return receipt.first.inner_text()

    def end_kernels(self) -> None:
        end_kernels(self.page)


@contextlib.contextmanager
def browser_student(address: str, login: str, **options) -> Iterator[BrowserStudent]:
    """`options` are the browser context's: a phone's, a dark one."""
    with browser_page(**options) as page:
        yield BrowserStudent(address, login, page)
