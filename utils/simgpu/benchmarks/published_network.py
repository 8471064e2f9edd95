"""All-reduces and messages between GPUs: the cost model beside what others measured. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_network

The rows of benchmarks/data/network.csv, with their source in each, within one machine whose GPUs are all linked
alike: eight A100 (vidur's profiles), and two 2080 Ti with a bridge (a table of nccl-tests). simgpu has no machine whose
pairs have links of their own. The cost model is NCCL's own (simgpu/collectives.py); nothing is fitted to these.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import median

from simgpu.collectives import Fabric
from simgpu.distributed import PAIR
from simgpu.profiles import LINKS, NETWORKS, LinkProfile

ROWS = Path(__file__).parent / "data" / "network.csv"
MACHINES = {
    "a100_dgx": ("A100", LINKS["nvlink3"], (8, 0)),
    "2080ti_bridge": (
        "2080 Ti",
        LinkProfile("bridge", 50e9, "two links of NVLink 2, NVIDIA's Turing white paper"),
        (7, 5),
    ),
}
SIZES = ((0, 2**17, "below 128 KiB"), (2**17, 2**23, "to 8 MiB"), (2**23, 2**40, "above"))


def predicted(op: str, given: dict, link: LinkProfile, capability: tuple[int, int]) -> float:
    """Seconds."""
    if op == "all_reduce":
        return Fabric(given["gpus"], 1, link, NETWORKS["100G"], capability).seconds(op, given["bytes"])
    return link.seconds(given["bytes"]) + PAIR


def main() -> None:
    ratios = defaultdict(list)
    with ROWS.open() as file:
        for row in csv.DictReader(file):
            given = json.loads(row["params"])
            if given["gpus"] == given["per_node"] and given["node"] in MACHINES:
                gpu, link, capability = MACHINES[given["node"]]
                [name] = [name for low, high, name in SIZES if low <= given["bytes"] < high]
                key = row["op"], given["gpus"], gpu, name
                ratios[key].append(predicted(row["op"], given, link, capability) * 1e6 / float(row["measured_us"]))
    for (op, count, gpu, name), found in sorted(ratios.items()):
        error = median(abs(ratio - 1) for ratio in found)
        words = f"{len(found):3} rows, predicted over measured {median(found):.2f}, median error {error:.0%}"
        print(f"{op:<10} {count} x {gpu:<7}, {name:<13} {words}")


if __name__ == "__main__":
    main()
