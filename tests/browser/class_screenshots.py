"""The pictures of a class in docs/images, taken of a real hub: run by hand where the pictures change.

    sudo PYTHONPATH=. .venv/bin/python tests/browser/class_screenshots.py

A few students answer lab 01, right and wrong. Then a student's JupyterLab and the instructor's page are photographed.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat

from tests.browser.lab import browser_page
from tests.browser.room import SHOWN, browser_student
from tests.browser.screenshots import IMAGES, SCALE, THEMES, fewer_colours
from tests.support.a_hub import AHub
from tests.support.answers import chosen
from tests.support.notebooks import ROOT, notebook_with

LAB = "labs/lab01/lab01_split_a_model.ipynb"
ANSWERS = {
    "ann": {},
    "bob": chosen("lab01", "wrong", ex1="both_on_first"),
    "carl": chosen("lab01", "wrong", ex1="both_on_first"),
    "dora": chosen("lab01", "wrong", ex2="input_never_moved"),
}
RAISE_HAND = 'from utils.exercises.raise_hand import raise_hand\nraise_hand("lab01 ex2")'
PHONE = {"width": 390, "height": 760}


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="class-") as folder:
        hub = AHub(Path(folder), [*ANSWERS, "eve"], SHOWN, live="true")
        try:
            hub.start()
            for login, answers in ANSWERS.items():
                answer(hub, login, answers)
            for scheme in THEMES:
                the_instructors(hub, IMAGES / f"class-live-{scheme}.png", color_scheme=scheme)
            the_instructors(hub, IMAGES / "class-live-phone.png", color_scheme="light", viewport=PHONE)
            a_student(hub)
        finally:
            hub.stop()


def answer(hub: AHub, login: str, answers: dict[str, str]) -> None:
    student = hub.student(login)
    student.open(LAB)
    for cell in notebook_with("lab01", answers).cells:
        if cell.cell_type == "code" and "hand_in" not in cell.source:
            student.run(cell.source.replace("check.raises()", ""))
    if login == "dora":
        student.run(RAISE_HAND)
    student.end_kernel()
    student.close()


def the_instructors(hub: AHub, path: Path, **options) -> None:
    """The live page, as the instructor's browser shows it."""
    with browser_page(device_scale_factor=SCALE, **options) as page:
        page.goto(f"{hub.address}/hub/login?next=%2Fservices%2Fclass%2Flive")
        page.fill("input[name=username]", "instructor")
        page.fill("input[name=password]", hub.of.instructors_password)
        page.click("input[type=submit]")
        page.wait_for_url("**/services/class/live**")
        page.get_by_text("This machine").wait_for()
        page.screenshot(path=path, full_page=True)
    fewer_colours(path)


def as_a_student_writes() -> list[str]:
    """The cells of the students' lab 01, with right answers in place of the empty ones."""
    answered, given = notebook_with("lab01", {}).cells, nbformat.read(ROOT / LAB, as_version=4).cells
    return [
        re.sub(r" *### (BEGIN|END) SOLUTION\n?", "", answer.source) if "SOLUTION" in answer.source else cell.source
        for answer, cell in zip(answered, given, strict=True)
    ]


def a_student(hub: AHub) -> None:
    """Lab 01, handed in by its button, in both themes."""
    with browser_student(hub.address, "eve", device_scale_factor=SCALE) as eve:
        eve.log_in(hub.of.password)
        eve.wait_for_the_server()
        eve.open(LAB)
        eve.write(as_a_student_writes())
        eve.run_all()
        receipt = eve.hand_in().splitlines()[0]
        for name, theme in THEMES.items():
            eve.page.evaluate("theme => window.jupyterapp.commands.execute('apputils:change-theme', { theme })", theme)
            eve.page.wait_for_timeout(2000)  # styles load
            eve.page.get_by_text(receipt).first.scroll_into_view_if_needed()
            eve.page.screenshot(path=IMAGES / f"class-student-{name}.png")
            fewer_colours(IMAGES / f"class-student-{name}.png")


if __name__ == "__main__":
    main()
