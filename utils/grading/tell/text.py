"""Text of strangers made harmless."""

from __future__ import annotations

import re

# Terminal sequences, control characters (tab and line end stay), and marks that turn the direction of what follows.
SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
INVISIBLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")
LINE_END = re.compile("\r\n|[\u2028\u2029]")
LONGEST = 4000  # characters of one text from a submission


def clean(text: object, longest: int = LONGEST) -> str:
    """Text that cannot do anything: no terminal sequences, no control or direction marks, and bounded."""
    text = str(text)
    # What is cut off is not looked at: a note of a gigabyte costs no more than one of a page.
    kept = text[: 4 * longest].encode("utf-8", "replace").decode("utf-8")
    kept = LINE_END.sub("\n", SEQUENCES.sub("", kept))
    kept = INVISIBLE.sub("", kept)
    if len(kept) > longest or len(text) > 4 * longest:
        return f"{kept[:longest].rstrip()} … (cut off here)"
    return kept


def line(text: object, longest: int = 200) -> str:
    """`clean` text, on one line."""
    return " ".join(clean(text, longest).split())
