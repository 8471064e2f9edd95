"""A file of measurements that somebody has sent: written here, and checked when it is read.

Whatever is wrong with a file is one Problem, a single line. A digest shows that a file was changed afterwards, not by
whom it was made; who forges that, too, meets what no GPU can do: more than its datasheet says.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import jsonschema
import jsonschema.exceptions
import torch

from simgpu import enable
from simgpu.profiles import GPUS, GpuProfile
from utils.common.errors import Problem
from utils.common.files import write_whole
from utils.course.measure import OPERATORS
from utils.course.operators import call, kernel_seconds

FORMAT, VERSION = "model-parallel-course measurements", 1
LARGEST = 2**20  # bytes
# More than a datasheet's peak is found where a clock is boosted above what the datasheet counts with.
ABOVE_DATASHEET = 1.3
NO_GPU = GpuProfile("any GPU", 1e15, 50e12, 1e13, 10_000, "more than there is", {torch.float16: 2e16})
# NVIDIA's names of products, as PyTorch says them, and the profile of each: the first that fits.
PRODUCTS = {
    r"\bT4\b": "T4", r"\bL4\b": "L4", r"\bP4\b": "P4", r"\bP40\b": "P40", r"\bA40\b": "A40", "GP100": "GP100",
    "P100": "P100", "V100-PCIE": "V100-PCIe", "V100": "V100", "A100.PCIE-40GB": "A100-40GB-PCIe",
    "A100.*PCIe?.*80GB|A100 80GB PCIe": "A100-80GB-PCIe", "A100-SXM4-80GB": "A100-80GB-SXM", "A100": "A100",
    "H100": "H100", "H200": "H200", "B200": "B200", "2080 Ti": "2080Ti",
}  # fmt: skip


def _above(least: float, most: float) -> dict:
    return {"type": "number", "exclusiveMinimum": least, "maximum": most}


def _object(**fields: dict) -> dict:
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}


# On one line, and nothing that a terminal would obey.
TEXT = {"type": "string", "maxLength": 100, "pattern": r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2060-\u2069]+\Z"}
# A rate a thousand times below the slowest GPU that runs PyTorch, or a launch of a second, was not measured on one.
RATE, SECONDS, LAUNCH = _above(1e6, 1e18), _above(0, 60), _above(1e-9, 0.1)
PROFILE = _object(
    flops=RATE, bandwidth=RATE, memory=RATE, launch=LAUNCH, shortest=LAUNCH,
    multiprocessors={"type": "integer", "minimum": 1, "maximum": 100_000},
    tf32={"anyOf": [RATE, {"type": "null"}]},
    fast={"type": "object", "additionalProperties": False, "properties": {"float16": RATE, "bfloat16": RATE}},
)  # fmt: skip
OPERATOR = _object(op=TEXT, dtype=TEXT, params={"type": "object"}, seconds=SECONDS)
GPU = _object(name=TEXT, simulated={"type": "boolean"}, profile=PROFILE, operators={"type": "array", "items": OPERATOR})
LINK = _object(**{"from": TEXT, "to": TEXT, "bandwidth": RATE, "latency": SECONDS})
LINK["properties"]["pageable"] = RATE
SCHEMA = _object(
    format={"const": FORMAT}, version={"const": VERSION}, torch=TEXT, python=TEXT, course=TEXT,
    gpus={"type": "array", "minItems": 1, "maxItems": 64, "items": GPU},
    links={"type": "array", "maxItems": 500, "items": LINK},
    digest=TEXT,
)  # fmt: skip


def write(path: Path, measured: dict) -> None:
    """Write measurements to a file."""
    content = {"format": FORMAT, "version": VERSION, **measured}
    write_whole(path, json.dumps({**content, "digest": digest(content)}, indent=1) + "\n")


def digest(content: dict) -> str:
    """A number that changes with anything in a file."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def read(path: Path) -> dict:
    """The measurements of a file. Raises Problem for a file that is not one, not whole, changed, or impossible."""
    content = _parsed(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Problem(f"{path.name} was not written by `course measure`")
    if isinstance(content.get("version"), int) and content["version"] > VERSION:
        raise Problem(f"{path.name} was written by a newer version of the course: update this one to read it")
    if wrong := jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(SCHEMA).iter_errors(content)):
        raise Problem(f"{path.name}: {wrong.json_path.removeprefix('$.')}: {_short(wrong.message)}")
    if digest(content) != content["digest"]:
        raise Problem(f"{path.name} was changed after it was measured")
    for gpu in content["gpus"]:
        if impossible := _impossible(gpu):
            raise Problem(f"{path.name}: {gpu['name']}: {impossible}")
    return content


def _parsed(path: Path):
    try:
        if path.stat().st_size > LARGEST:
            raise Problem(f"{path.name} has more than {LARGEST // 2**20} MiB: that is no file of `course measure`")
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from None
    except json.JSONDecodeError as error:
        raise Problem(f"{path.name} is broken off, or no JSON: {error.msg} in line {error.lineno}") from None
    except (UnicodeDecodeError, RecursionError):
        raise Problem(f"{path.name} is no JSON") from None
    except ValueError as error:
        raise Problem(f"{path.name}: {error}") from None


def _no_number(word: str):
    raise ValueError(f"{word} is no time and no rate")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 150 else f"{text[:70]} ... {text[-70:]}"


def profile_of(name: str) -> str | None:
    """The profile of a product by the name that PyTorch says, if simgpu has one."""
    if name in GPUS:
        return name
    return next((known for pattern, known in PRODUCTS.items() if re.search(pattern, name, re.IGNORECASE)), None)


def own_profile(gpu: dict) -> GpuProfile:
    """A GPU's profile as it was measured there."""
    rates = dict(gpu["profile"])
    fast = {getattr(torch, name): rate for name, rate in rates.pop("fast").items()}
    shares = dict.fromkeys(("efficiency", "tensor_efficiency", "streams"), 1.0)
    return GpuProfile(name=f"{gpu['name']} (measured)", source="sent in", fast=fast, **rates, **shares)


def _impossible(gpu: dict) -> str:
    """What no GPU of this name can have done, or nothing."""
    measured = [(row["op"], row["dtype"], row["params"]) for row in gpu["operators"]]
    if measured != OPERATORS:
        return f"it has {len(measured)} operators that are not the {len(OPERATORS)} of `course measure`"
    name = profile_of(gpu["name"])
    limits = GPUS[name] if name else NO_GPU
    says = f"more than {ABOVE_DATASHEET} times the datasheet" if name else "more than any GPU does"
    found = own_profile(gpu)
    if found.flops > ABOVE_DATASHEET * limits.flops or found.bandwidth > ABOVE_DATASHEET * limits.bandwidth:
        return f"{found.flops / 1e12:.3g} TFLOP/s and {found.bandwidth / 1e9:.4g} GB/s are {says}"
    for row in gpu["operators"]:
        if row["op"] == "mm":
            rate = 2 * row["params"]["m"] * row["params"]["n"] * row["params"]["k"] / row["seconds"]
            if rate > ABOVE_DATASHEET * limits.peak(getattr(torch, row["dtype"])):
                return f"mm in {row['dtype']} in {row['seconds']:.3g} s is {rate / 1e12:.3g} TFLOP/s, {says}"
    return ""


def predicted_seconds(gpu: dict) -> list[float]:
    """Simulated seconds of a GPU's operators: by its profile, or by what was measured there where simgpu has none."""
    enable(count=1, gpu=profile_of(gpu["name"]) or own_profile(gpu), compute=False, memory=2**60)
    seconds = []
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        for row in gpu["operators"]:
            operands, work = call(row["op"], row["params"], row["dtype"], "simgpu:0")
            seconds.append(kernel_seconds(lambda work=work, operands=operands: work(*operands), lambda: None))
    return seconds


def table(content: dict) -> str:
    """Everything in a file, as text: measured beside predicted."""
    lines = []
    for gpu in content["gpus"]:
        by = profile_of(gpu["name"])
        lines.append(f"{gpu['name']}{', simulated' if gpu['simulated'] else ''} (torch {content['torch']})")
        lines.append(f"  {'':<58}{'measured':>12}{'predicted':>12}  by {by or 'its own rates'}")
        for row, seconds in zip(gpu["operators"], predicted_seconds(gpu), strict=True):
            what = f"{row['op']} {row['dtype']} {_short(json.dumps(row['params']))}"
            lines.append(f"  {what:<58.58}{row['seconds'] * 1e6:>9,.0f} us{seconds * 1e6:>9,.0f} us"
                         f"{seconds / row['seconds']:>7.2f}")  # fmt: skip
    for link in content["links"]:
        lines.append(f"{link['from']} to {link['to']}: {link['bandwidth'] / 1e9:.1f} GB/s, "
                     f"{link['latency'] * 1e6:.1f} us")  # fmt: skip
    return "\n".join(lines)
