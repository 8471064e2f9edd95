"""A file of several pieces of code, each below its headline: `# %% wrong: input_never_moved`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

HEADLINE = re.compile(r"^# %% (.+?)[ \t]*\n", re.MULTILINE)


def read_parts(path: Path) -> tuple[str, str, list[tuple[str, str]]]:
    """The docstring on top and the code below it ("" where there is none), and each part's headline and text."""
    top, *pieces = HEADLINE.split(path.read_text(encoding="utf-8"))
    says, code = ast.get_docstring(ast.parse(top)) or "", top
    if says:
        code = "".join(top.splitlines(keepends=True)[ast.parse(top).body[0].end_lineno :])
    return says, code.strip(), list(zip(pieces[::2], pieces[1::2], strict=True))
