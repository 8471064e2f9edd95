"""Copies that others measured on real GPUs, and what simgpu takes for them.

The rows: copies in traces (facebookresearch/HolisticTraceAnalysis f4d0062, pytorch/kineto's tb_plugin samples) and
NCCL's send_recv between two A100 of one machine (microsoft/vidur 7d47513). Each is done on the simulated GPU of its
name, and its time read from the log. For a small message NCCL takes some microseconds of its own, which a copy does
not. Left out: send_recv between machines, which no link here is for, and a pair of A40 without NVLink, at 4 GB/s: that
goes through the host's memory, and no link claims to know it.

    .venv/bin/python -m utils.simgpu.benchmarks.copies [FOLDER WITH copies.csv AND network.csv]
"""

import csv
import json
import sys
from pathlib import Path
from statistics import median

import torch

import simgpu

ROWS = Path(__file__).parent / "data"
LARGE = 8_000_000
# Which rows a constant of `profiles.LINKS` was taken from; all others are only compared.
USED = {"host to device, pageable, loader workers": "LinkProfile.pageable"}


def group_of(row: dict, size: int) -> tuple[str, str, str] | None:
    """(group, GPU, link) of a row, or None where no link is meant for it."""
    if row["op"] == "memcpy" and row["pass"].startswith("HtoD"):
        beside = "loader workers" if "workers_4" in row["source"] else "nothing else"
        return (f"host to device, pageable, {beside}" if size > LARGE else "host to device, 256 bytes"), "V100", "pcie3"
    if row["op"] == "memcpy":
        return (
            f"in one GPU, {'under 10 kB' if size < 10_000 else 'over 8 MB' if size > LARGE else 'between'}",
            "V100",
            "",
        )
    params = json.loads(row["params"])
    if row["op"] == "send_recv" and row["gpu"].startswith("A100") and params["per_node"] == 2:
        return f"{params['node']}, {'over' if size > LARGE else 'under'} 8 MB", "A100", "nvlink3"
    return None


def predicted(gpu: str, link: str, kind: str, size: int) -> float:
    """Simulated microseconds of one copy."""
    simgpu.enable(count=2, gpu=gpu, link=link or "nvlink2", compute=False)
    on_host = kind.startswith("host")
    source = torch.empty(size, dtype=torch.uint8, device="cpu" if on_host else "simgpu:0")
    target = torch.empty(size, dtype=torch.uint8, device="simgpu:0" if on_host or not link else "simgpu:1")
    target.copy_(source)
    record = simgpu.log()[-1]
    return (record.end - record.start) * 1e6


def compare(folder: Path) -> dict[str, list[tuple[float, float]]]:
    """(predicted, measured) microseconds of all rows, by group."""
    groups = {}
    for name in ("copies.csv", "network.csv"):
        with open(folder / name, newline="") as file:
            for row in csv.DictReader(file):
                size = json.loads(row["params"])["bytes"]
                found = group_of(row, size)
                if found is not None:
                    group, gpu, link = found
                    groups.setdefault(group, []).append((predicted(gpu, link, group, size), float(row["measured_us"])))
    return groups


def main() -> None:
    groups = compare(Path(sys.argv[1]) if len(sys.argv) > 1 else ROWS)
    print(f"{'':<44}{'rows':>5}{'predicted, us':>15}{'measured, us':>14}{'ratio':>7}{'error':>7}")
    for group, rows in sorted(groups.items()):
        ratios = [ours / theirs for ours, theirs in rows]
        ours, theirs = (median(column) for column in zip(*rows, strict=True))
        error = median(abs(ratio - 1) for ratio in ratios)
        used = f"  a constant is from these: {USED[group]}" if group in USED else ""
        print(f"{group:<44}{len(rows):>5}{ours:>15.1f}{theirs:>14.1f}{median(ratios):>7.2f}{error:>7.1%}{used}")


if __name__ == "__main__":
    main()
