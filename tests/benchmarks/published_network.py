"""All-reduces and messages between GPUs: the cost model beside what others measured. Run it by hand:

    .venv/bin/python tests/benchmarks/published_network.py

The rows of tests/measurements/network.csv (vidur's profiles, with their source in each row) within one machine of eight
A100, whose GPUs are all linked alike: pairs with a link of their own are a machine that simgpu does not have. The cost
model is NCCL's own (utils/simgpu/collectives.py); nothing of it is fitted to these rows.
"""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from statistics import median

from utils.simgpu.collectives import Fabric
from utils.simgpu.distributed import PAIR
from utils.simgpu.profiles import LINKS, NETWORKS

ROWS = Path(__file__).parent.parent / "measurements" / "network.csv"
SIZES = ((0, 2**17, "below 128 KiB"), (2**17, 2**23, "to 8 MiB"), (2**23, 2**40, "above"))


def predicted(op: str, given: dict) -> float:
    """Seconds."""
    if op == "all_reduce":
        return Fabric(given["gpus"], 1, LINKS["nvlink3"], NETWORKS["100G"]).seconds(op, given["bytes"])
    return LINKS["nvlink3"].seconds(given["bytes"]) + PAIR


def main() -> None:
    ratios = defaultdict(list)
    with ROWS.open() as file:
        for row in csv.DictReader(file):
            given = json.loads(row["params"])
            if given["gpus"] == given["per_node"] and given["node"] == "a100_dgx":
                [name] = [name for low, high, name in SIZES if low <= given["bytes"] < high]
                key = row["op"], given["gpus"], name
                ratios[key].append(predicted(row["op"], given) * 1e6 / float(row["measured_us"]))
    for (op, count, name), found in sorted(ratios.items()):
        error = median(abs(ratio - 1) for ratio in found)
        words = f"{len(found):3} rows, predicted over measured {median(found):.2f}, median error {error:.0%}"
        print(f"{op:<10} {count} x A100, {name:<13} {words}")


if __name__ == "__main__":
    main()
