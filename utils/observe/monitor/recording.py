"""Samples from a file that `GpuMonitor.save` wrote, and that file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from utils.observe.monitor.samples import Trouble, device_type

FORMAT = "GPU samples of the model parallel course"
VERSION = 1


class Recorded:
    """Where the samples of a file come from. `recorded` is the label in the file."""

    virtual = False

    def __init__(self, label: str, trouble: list[str]):
        self.recorded = label
        self.label = f"recorded: {label}"
        self.trouble = Trouble(trouble)


def as_json(label: str, hz: float, devices: list[str], trouble: list[str], samples: list) -> str:
    """The text of a recording."""
    content = {"format": FORMAT, "version": VERSION, "label": label, "hz": hz, "devices": devices}
    return json.dumps(content | {"trouble": trouble, "samples": samples})


def content_of(path: str | os.PathLike) -> dict:
    """What a recording holds, checked. Raises ValueError of one line, OSError for a file that cannot be opened."""

    def require(fine: bool, what: str) -> None:
        if not fine:
            raise ValueError(
                f"GpuMonitor.replay: {path} is not a recording that can be read: {what}. "
                "Make one with GpuMonitor.save(path)."
            )

    raw = Path(path).read_bytes()
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        where = f" at line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        require(False, f"it is no valid JSON{where}")
    require(isinstance(content, dict) and content.get("format") == FORMAT, f"its 'format' is not {FORMAT!r}")
    version = content.get("version")
    require(
        version == VERSION and type(version) is int, f"its 'version' is {version!r:.40}, this course reads {VERSION}"
    )
    require(_is_line(content.get("label")), "its 'label' is not one line of text")
    require(_is_number(content.get("hz"), 1, 20), "its 'hz' is not a number from 1 to 20")
    trouble, devices, samples = (content.get(name) for name in ("trouble", "devices", "samples"))
    require(isinstance(trouble, list) and all(map(_is_line, trouble)), "its 'trouble' is not a list of lines")
    named = isinstance(devices, list) and devices and all(isinstance(d, str) and device_type(d) for d in devices)
    require(named and len(set(devices)) == len(devices), "its 'devices' is not a list of GPUs such as 'cuda:0'")
    require(isinstance(samples, list), "its 'samples' is not a list")
    for number, values in enumerate(samples, 1):
        require(isinstance(values, list) and len(values) == 5, f"sample {number} does not have 5 values")
        at, device, share, *memory = values
        require(_is_number(at, 0), f"the time of sample {number} is not a number of seconds, 0 or more")
        require(isinstance(device, str) and device in devices, f"the device of sample {number} is not in 'devices'")
        require(share is None or _is_number(share, 0, 100), f"the utilization of sample {number} is not 0 to 100")
        whole = all(size is None or (_is_number(size, 0) and isinstance(size, int)) for size in memory)
        require(whole, f"the memory of sample {number} is not in whole bytes")
    return content


def _is_line(value: object) -> bool:
    return isinstance(value, str) and len(value.splitlines()) == 1


def _is_number(value: object, least: float, most: float = 2.0**63) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most
