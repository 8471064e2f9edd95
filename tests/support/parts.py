"""A file of several pieces of code, each below its headline: `# %% wrong: input_never_moved`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HEADLINE = re.compile(r"^# %% (.+?)[ \t]*\n", re.MULTILINE)


def read_parts(path: Path) -> tuple[str, list[tuple[str, str]]]:
    """The docstring on top ("" where there is none), and the headline and text of each part, in their order."""
    top, *pieces = HEADLINE.split(path.read_text(encoding="utf-8"))
    return ast.get_docstring(ast.parse(top)) or "", list(zip(pieces[::2], pieces[1::2], strict=True))
