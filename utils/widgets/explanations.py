"""Why something is as it is: what a lesson explains after the run, kept beside the lessons and not in them.

utils/widgets/explained/01.md has a section for each question of lesson 01, in their order, under a heading `## 1`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "explained"
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def explanation(name: str) -> str:
    """The Markdown of the explanation called `name`, such as "01/1".

    Raises ValueError where there is none, naming the file.
    """
    lesson, _, section = name.partition("/")
    path = FOLDER / f"{lesson}.md"
    found = sections(path).get(section) if path.is_file() else None
    if not found:
        raise ValueError(f"there is no explanation {name!r}: utils/widgets/explained/{lesson}.md has no '## {section}'")
    return found


@cache
def sections(path: Path) -> dict[str, str]:
    """Each section of a file of explanations, by its heading."""
    _, *parts = HEADING.split(path.read_text(encoding="utf-8"))
    return {heading.strip(): text.strip() for heading, text in zip(parts[::2], parts[1::2], strict=True)}
