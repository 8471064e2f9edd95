"""Where a program called: its Python frames, noted cheaply, and looked up in the source when somebody reads."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = str(Path(__file__).parent) + os.sep


def call_stack(most: int = sys.maxsize) -> tuple:
    """Code and position in it, in turns, of the caller and who called it, the innermost first; `most` frames of them.

    It holds no frame, and so keeps no local variable alive.
    """
    where: list = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and most > 0:
        where += frame.f_code, frame.f_lasti
        frame = frame.f_back
        most -= 1
    return tuple(where)


def frames_of(stack: tuple) -> list[dict[str, Any]]:
    """`name`, `filename` and `line` of each frame of a `call_stack`, without this package's own."""
    return [frame for pair in zip(*[iter(stack)] * 2, strict=True) if (frame := _frame(*pair))]


@lru_cache(maxsize=10_000)
def _frame(code: CodeType, at: int) -> dict[str, Any] | None:
    """Where an instruction stands in the source; None for this package's own."""
    if code.co_filename.startswith(HERE):
        return None
    lines = (line for start, end, line in code.co_lines() if start <= at < end)
    return {"name": code.co_name, "filename": code.co_filename, "line": next(lines, None) or code.co_firstlineno}
