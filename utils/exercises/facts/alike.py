"""Whether two students were told the same: as it stands, or but for the numbers and devices in it."""

from __future__ import annotations

import hashlib
import re

DEVICE = re.compile(r"\b(?:simgpu|cuda|cpu)(?::\d+)?\b")
NUMBER = re.compile(r"-?\d[\d.,]*(?:e[+-]?\d+)?")


def blanked(words: str) -> str:
    """The first line of what was said, without the numbers and devices in it."""
    first = words.strip().split("\n")[0]
    return " ".join(NUMBER.sub("0", DEVICE.sub("device", first)).split())


def likeness(words: str) -> str:
    """Sixteen characters that messages share which differ in numbers and devices only. No word is in it."""
    return hashlib.sha256(blanked(words).encode()).hexdigest()[:16]
