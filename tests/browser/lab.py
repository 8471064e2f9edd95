"""A real JupyterLab, started as `make lab` starts it, and a real Chromium looking at it."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.support.notebooks import ROOT

SCREENSHOTS = Path(__file__).parent / "screenshots"
CHROMIUM = shutil.which("chromium")
# Chromium looks things up on the network at start; there is none to look them up on.
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
QUIET += ["--disable-sync", "--no-first-run", "--disable-quic"]
SECONDS = 1000  # Playwright counts in milliseconds


@contextlib.contextmanager
def jupyterlab(folder: Path) -> Iterator[str]:
    """Serve `folder`, a copy of the course, and yield the address with its token."""
    token = secrets.token_hex(16)
    command = [
        *(sys.executable, "-m", "jupyterlab", "--config=tools/jupyter_lab_config.py", "--no-browser"),
        *("--port=0", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}"),
        *("--ip=127.0.0.1", "--LabApp.expose_app_in_browser=True"),
    ]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
    environment = {**clean, "HOME": str(folder), "COURSE_DEVICES": "simulated", "COURSE_WIDGETS": "1"}
    server = subprocess.Popen(
        command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        log = []
        for line in server.stderr:
            log.append(line)
            if found := re.search(r"(http://127\.0\.0\.1:\d+/lab)\S*\?token=", line):
                break
        else:
            raise RuntimeError("JupyterLab did not start:\n" + "".join(log[-15:]))
        # The rest is not read; a full pipe would stop the server.
        threading.Thread(target=server.stderr.read, daemon=True).start()
        yield f"{found[1]}?token={token}"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(timeout=30)


@contextlib.contextmanager
def browser_page(**options) -> Iterator[Page]:
    """A page in Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
        try:
            yield context.new_page()
        finally:
            browser.close()


def copy_of_the_course(folder: Path) -> Path:
    """The notebooks and labs in a folder of their own, so that saving in the browser changes nothing here."""
    for name in ("notebooks", "labs", "tools"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return folder


def open_notebook(page: Page, address: str, path: str) -> None:
    """Open a notebook in JupyterLab and wait until its kernel answers."""
    # `reset`: without the notebooks that an earlier page of this server had open.
    page.goto(address.replace("/lab?", f"/lab/tree/{path}?reset&"))
    page.wait_for_function("window.jupyterapp !== undefined", timeout=60 * SECONDS)
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60 * SECONDS)
    page.evaluate(
        """async () => {
            const shell = window.jupyterapp.shell;
            while (!shell.currentWidget || !shell.currentWidget.sessionContext) {
                await new Promise(resolve => setTimeout(resolve, 100));
            }
            const session = shell.currentWidget.sessionContext;
            await session.ready;
            await session.session.kernel.info;
        }"""
    )


def end_kernels(page: Page) -> None:
    """End the kernels of all notebooks: each has most of a gigabyte."""
    page.evaluate("async () => window.jupyterapp && window.jupyterapp.serviceManager.sessions.shutdownAll()")


def cells(page: Page) -> list[dict]:
    """Type, tags, and outputs of every cell, as JupyterLab holds them."""
    return page.evaluate(
        """() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells.map(cell => ({
            type: cell.cell_type, tags: cell.metadata.tags || [], source: cell.source,
            count: cell.execution_count, outputs: cell.outputs || []
        }))"""
    )


def run_all(page: Page, seconds: float = 120) -> list[dict]:
    """Run the open notebook from top to bottom, past cells that are meant to raise; returns `cells`.

    Comes back early where a cell raises that is not meant to: the cells after it do not run then.
    """
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.wait_for_function(
        """() => {
            const panel = window.jupyterapp.shell.currentWidget;
            const code = panel.content.model.sharedModel.toJSON().cells
                .filter(cell => cell.cell_type === 'code' && cell.source.length);
            const meant = cell => (cell.metadata.tags || []).includes('raises-exception');
            const failed = code.some(cell => !meant(cell) && cell.outputs.some(o => o.output_type === 'error'));
            const idle = panel.sessionContext.session.kernel.status === 'idle';
            return failed || (idle && code.every(cell => cell.execution_count));
        }""",
        timeout=seconds * SECONDS,
    )
    return [cell for cell in cells(page) if cell["source"]]


def what_is_wrong(cell: dict) -> str:
    """Of a cell that ran: that it raised although none is meant to, or did not although it is; in words, or nothing."""
    raised = [f"{each['ename']}: {each['evalue']}" for each in cell["outputs"] if each["output_type"] == "error"]
    if bool(raised) != ("raises-exception" in cell["tags"]):
        return f"{raised or 'no error'} from:\n{cell['source']}"
    return "" if cell["count"] else f"this cell did not run:\n{cell['source']}"


def screenshot(page: Page, name: str) -> Path:
    """Keep what the browser shows."""
    SCREENSHOTS.mkdir(exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path)
    return path
