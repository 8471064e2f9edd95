"""Notebooks run from top to bottom in Debian's Firefox. By hand, because Playwright wants a Firefox of its own.

    apt-get install firefox-esr
    .venv/bin/pip install marionette_driver
    PYTHONPATH=. .venv/bin/python tests/browser/firefox.py notebooks/00*.ipynb notebooks/05*.ipynb

marionette_driver is Mozilla's, and leads Firefox as geckodriver does.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tests.browser.lab import (
    SECONDS,
    copy_of_the_course,
    end_kernels,
    jupyterlab,
    open_notebook,
    run_all,
    what_is_wrong,
)

LONGEST = 400  # seconds of a lesson
LOST = "() => document.body.innerText.includes('Error displaying widget')"


class Page:
    """As much of Playwright's page as browser/lab.py asks for."""

    def __init__(self, firefox):
        self.firefox = firefox
        self.goto = firefox.navigate

    def evaluate(self, function: str):
        """What a function of JavaScript returns or promises. Raises RuntimeError with the words of its error."""
        script = f"const done = arguments[0]; (async () => ({function})())().then(x => done([x]), e => done(String(e)))"
        answer = self.firefox.execute_async_script(script, sandbox=None)
        if isinstance(answer, str):
            raise RuntimeError(answer)
        return answer[0]

    def wait_for_function(self, function: str, timeout: float) -> None:
        """Until it returns something true, or for `timeout` milliseconds. Raises TimeoutError."""
        function = function if "=>" in function else f"() => {function}"
        until = time.monotonic() + timeout / SECONDS
        while not self.evaluate(function):
            if time.monotonic() > until:
                raise TimeoutError(f"not so after {timeout / SECONDS:g} s: {function}")
            time.sleep(0.2)

    def wait_for_selector(self, selector: str, timeout: float) -> None:
        self.wait_for_function(f"() => document.querySelector('{selector}') !== null", timeout)


def main(notebooks: list[str]) -> None:
    from marionette_driver.marionette import Marionette

    firefox = Marionette(bin=shutil.which("firefox-esr"), headless=True, gecko_log=os.devnull)
    firefox.start_session()
    firefox.timeout.script = 120
    page, failed = Page(firefox), 0
    try:
        with tempfile.TemporaryDirectory() as folder, jupyterlab(copy_of_the_course(Path(folder))) as address:
            for notebook in notebooks:
                open_notebook(page, address, notebook)
                ran = [cell for cell in run_all(page, seconds=LONGEST) if cell["type"] == "code"]
                wrong = [told for cell in ran if (told := what_is_wrong(cell))] + ["a widget"] * page.evaluate(LOST)
                failed += len(wrong)
                print(f"{notebook}: {len(ran)} cells, {len(wrong)} wrong", *wrong, sep="\n", flush=True)
                end_kernels(page)
        print(f"Firefox {firefox.session_capabilities['browserVersion']}: {failed} wrong")
    finally:
        firefox.quit()
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
