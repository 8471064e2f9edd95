"""How much there is to read, to predict and to write in each lesson: `python -m tools.benchmarks.lessons`.

Minutes are an estimate for somebody who takes a lesson for the first time: 180 words a minute, 6 seconds for a line of
code, half a minute for a prediction, and what the lesson itself says that a task takes. Sections with a star are left
out, but for the last column.
"""

from __future__ import annotations

import re
from pathlib import Path

from utils.common.cell_tags import TASK
from utils.common.files import ROOT
from utils.common.notebook_format import nbformat
from utils.widgets.explanations import FOLDER, sections

WORDS_A_MINUTE = 180
SECONDS_A_LINE = 6
SECONDS_A_PREDICTION = 30
TASK_MINUTES = re.compile(r"\*\*Task[^\n]*?(\d+) minutes")
SECTION, WHY = re.compile(r"^(?=## )", re.MULTILINE), re.compile(r'why="\d+/([^"]+)"')
COLUMNS = ("lesson", "cells", "code", "lines", "words", "explained", "tasks", "predicted", "figures", "minutes")


def split(path: Path) -> tuple[list, list]:
    """The cells of the core and of the sections with a star. A cell in which a section begins is cut in two."""
    core, starred = [], []
    cells = core
    for cell in nbformat.read(path, as_version=4).cells:
        for part in SECTION.split(cell.source) if cell.cell_type == "markdown" else [cell.source]:
            if cell.cell_type == "markdown" and part.startswith("## "):
                cells = starred if "★" in part.splitlines()[0] else core
            if part:
                cells.append(type(cell)(cell | {"source": part}))
    return core, starred


def measured(cells: list, explanations: dict[str, str]) -> tuple[int, ...]:
    """One row of the table. `explained`: the words of the explanations that a run reveals."""
    code = [cell for cell in cells if cell.cell_type == "code"]
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    tasks = [cell for cell in code if TASK in cell.metadata.get("tags", [])]
    asked = sum(cell.source.count("predict(") for cell in code)
    lines = sum(bool(line.strip()) for cell in code for line in cell.source.split("\n"))
    drawn = sum("![" in text for text in prose) + sum(_is_drawn(cell) for cell in code)
    words = sum(len(text.split()) for text in prose)
    explained = sum(len(explanations[name].split()) for cell in code for name in WHY.findall(cell.source))
    minutes = (words + explained) / WORDS_A_MINUTE + (lines * SECONDS_A_LINE + asked * SECONDS_A_PREDICTION) / 60
    minutes += sum(int(found) for text in prose for found in TASK_MINUTES.findall(text))
    count = len({cell.id for cell in cells})
    return count, len(code), lines, words, explained, len(tasks), asked, drawn, round(minutes)


def _is_drawn(cell) -> bool:
    return any("image/png" in o.get("data", {}) or "image/svg+xml" in o.get("data", {}) for o in cell.outputs)


def main() -> None:
    print(" | ".join((*COLUMNS, "minutes of ★")))
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        core, starred = split(path)
        number = path.name[:2]
        folder = FOLDER / f"{number}.md"
        explanations = sections(folder) if folder.exists() else {}
        row = (number, *measured(core, explanations))
        print(" | ".join(f"{value!s:>{len(name)}}" for name, value in zip(COLUMNS, row, strict=True)), end=" | ")
        print(measured(starred, explanations)[-1])


if __name__ == "__main__":
    main()
