"""A timeline out of a stranger's data: what can be drawn, or none."""

from __future__ import annotations

import re

from utils.grading.tell.text import line
from utils.observe.trace import PHASES, Event, Timeline

MOST_DEVICES, MOST_EVENTS, MOST_LABELS = 8, 4000, 64  # of a timeline that is drawn


def timeline_from(data: object) -> Timeline | None:
    """The timeline that a stranger's data describes, or None for what is none, too large, or has no length."""
    try:
        devices = tuple(_word(device) for device in _list(data["devices"], MOST_DEVICES))
        begin, end = _number(data["begin"]), _number(data["end"])
        events = tuple(_event(event, devices) for event in _list(data["events"], MOST_EVENTS))
        source = line(_text(data["source"]), 120).replace("$", "")
    except (KeyError, TypeError, ValueError, IndexError):
        return None
    fits = devices and len(set(devices)) == len(devices) and begin < end and source.isascii()
    if not fits or len({event.label for event in events}) > MOST_LABELS:
        return None
    return Timeline(devices, events, begin, end, source)


def _event(row: object, devices: tuple[str, ...]) -> Event:
    device, stream, what, kind, phase, start, end = _list(row, 13)[:7]
    other, label = (row[10], row[12]) if len(row) == 13 else (None, "")
    start, end = _number(start), _number(end)
    # A copy may begin or end outside the devices that are drawn.
    if kind not in ("kernel", "h2d", "d2h", "d2d") or phase not in PHASES or not 0 <= start <= end:
        raise ValueError
    if kind == "kernel" and device not in devices:
        raise ValueError
    other = None if other is None else _word(other)
    label = _word(label) if label else ""
    what, stream = _text(what)[:40], int(_number(stream))
    return Event(_word(device), stream, what, kind, phase, start, end, None, 0, 0, other, "", label)


def _list(value: object, most: int) -> list:
    if not isinstance(value, list | tuple) or len(value) > most:
        raise ValueError
    return list(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _word(value: object) -> str:
    """A short name that may be written into a picture."""
    if not re.fullmatch(r"[A-Za-z0-9_:.\- ]{1,24}", _text(value)):
        raise ValueError
    return value


def _number(value: object) -> float:
    # Neither NaN, nor infinite, nor a whole number that is no float.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e9 <= value <= 1e9:
        raise ValueError
    return float(value)
