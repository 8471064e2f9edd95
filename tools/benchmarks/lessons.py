"""How much there is to read, to predict and to write in each lesson: `python -m tools.benchmarks.lessons`.

Minutes are an estimate for somebody who takes a lesson for the first time: 180 words a minute, 6 seconds for a line of
code, half a minute for a prediction, and what the lesson itself says that a task takes.
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
COLUMNS = ("lesson", "cells", "code", "lines", "words", "explained", "tasks", "predicted", "figures", "minutes")


def measured(path: Path) -> tuple:
    """One row of the table. `explained`: the words of the explanations that a run reveals."""
    cells = nbformat.read(path, as_version=4).cells
    code = [cell for cell in cells if cell.cell_type == "code"]
    prose = [cell.source for cell in cells if cell.cell_type == "markdown"]
    tasks = [cell for cell in code if TASK in cell.metadata.get("tags", [])]
    asked = sum(cell.source.count("predict(") for cell in code)
    lines = sum(bool(line.strip()) for cell in code for line in cell.source.split("\n"))
    drawn = sum("![" in text for text in prose) + sum(_is_drawn(cell) for cell in code)
    words = sum(len(text.split()) for text in prose)
    folder = FOLDER / f"{path.name[:2]}.md"
    explained = sum(len(text.split()) for text in sections(folder).values()) if folder.exists() else 0
    minutes = (words + explained) / WORDS_A_MINUTE + (lines * SECONDS_A_LINE + asked * SECONDS_A_PREDICTION) / 60
    minutes += sum(int(found) for text in prose for found in TASK_MINUTES.findall(text))
    return path.name[:2], len(cells), len(code), lines, words, explained, len(tasks), asked, drawn, round(minutes)


def _is_drawn(cell) -> bool:
    return any("image/png" in o.get("data", {}) or "image/svg+xml" in o.get("data", {}) for o in cell.outputs)


def main() -> None:
    print(" | ".join(COLUMNS))
    for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
        print(" | ".join(f"{value!s:>{len(name)}}" for name, value in zip(COLUMNS, measured(path), strict=True)))


if __name__ == "__main__":
    main()
