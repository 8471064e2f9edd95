"""What of torch.distributed ran on simulated GPUs, how far it is from one process, and what it took. Writes its table
into docs/simgpu.md. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.ran_on_ranks

The checks are those of utils/simgpu/tests/process_groups/on_ranks.py, under torchrun, first on 4 ranks and then on 2.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from utils.common.files import python_path

PAGE = Path(__file__).parents[3] / "docs" / "simgpu.md"
RANK = Path(__file__).parents[1] / "tests" / "process_groups" / "on_ranks.py"
HEADER = "| PyTorch's | ranks | difference | simulated, ms | of this computer, s |\n"
BOTH = (2, 4)
CHECKS = {  # what a check runs, and on how many ranks
    "ddp": (
        "DistributedDataParallel: small buckets, gradients as views, `static_graph`, `find_unused_parameters`; with "
        "SyncBatchNorm its outputs, statistics and gradients",
        BOTH,
    ),
    "ddp_options": ("DistributedDataParallel: `no_sync`, a communication hook; a buffer is rank 0's on all", (2,)),
    "fsdp": ("FSDP2: gradients of two steps, `clip_grad_norm_`, weights", BOTH),
    "fsdp_options": (
        "FSDP2 with Adam: gradients over two steps that accumulate, weights gathered again or kept (float64); in mixed "
        "precision (bfloat16, gradients reduced in float32), against parts computed with the same casts",
        (2,),
    ),
    "tensor_parallel": ("DTensor: column and row parallel layers", BOTH),
    "sequence_parallel": (
        "A Transformer's block, tensor and sequence parallel: outputs, gradients, clipped norm",
        BOTH,
    ),
    "two_dimensions": ("The same on a mesh of two dimensions, with FSDP2 over the rows (2 x 2)", (4,)),
    "context_parallel_in_float32": (
        "`context_parallel`: keys and values gathered or passed round, balanced (zig-zag) or not, causal or not: "
        "outputs and gradients; its bytes and each rank's operations are those of the formulas",
        BOTH,
    ),
    "context_parallel_in_bfloat16": ("The same in bfloat16, with grouped queries, against float32", BOTH),
    "context_parallel_of_modules": ("The same as a plan for modules", BOTH),
    "ring_attention": ("Ring attention in plain PyTorch, in order and zig-zag: outputs, gradients, bytes", BOTH),
    "ulysses": ("Ulysses (heads for tokens by all-to-all): outputs, gradients, bytes", BOTH),
    "split_vocabulary": ("`loss_parallel`: loss, gradient of the logits, bytes", BOTH),
    "experts": ("Experts on all ranks, uneven all-to-alls: outputs, gradients, bytes", BOTH),
    "checkpoint_loaded": (
        "`torch.distributed.checkpoint`, saved on 4 ranks, loaded on 2: weights, and the next step of Adam",
        (2,),
    ),
    "pipelines": (
        "pipelining: GPipe, 1F1B, looped BFS, interleaved 1F1B, interleaved zero bubble, ZBV: gradients",
        BOTH,
    ),
}


def told_on(ranks: int, folder: Path, checks: list[str]) -> list[dict]:
    """What each rank has told."""
    folder.mkdir()
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [str(RANK), str(folder), *checks]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": python_path(), "GLOO_SOCKET_IFNAME": "lo"}
    environment["CHECKPOINT"] = str(folder.parent / "checkpoint")
    subprocess.run(command, env=environment, check=True)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]


def differences(name: str, told) -> Iterator[float]:
    """The numbers among what a check has told that are differences."""
    if name == "pipelines":
        told = [difference for difference, _ in told.values()]
    elif isinstance(told, dict) and "differences" in told:
        told = told["differences"]
        told = told.values() if isinstance(told, dict) else [told]
    elif isinstance(told, dict):
        told = [value for key, value in told.items() if key not in ("buffer", "gradients differed before", "output")]
    for value in told:
        yield from value if isinstance(value, list) else [value]


def table() -> str:
    chosen = {ranks: [name for name, (_, on) in CHECKS.items() if ranks in on] for ranks in BOTH}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "checkpoint").mkdir()
        four = told_on(4, Path(folder) / "four", [*chosen[4], "checkpoint_saved"])
        told = {2: told_on(2, Path(folder) / "two", chosen[2]), 4: four}
    lines = []
    for name, (words, on) in CHECKS.items():
        farthest = max(each for ranks in on for rank in told[ranks] for each in differences(name, rank[name]))
        took = [told[ranks][0]["took"][name] for ranks in on]
        cells = [
            words,
            "4, 2" if name == "checkpoint_loaded" else ", ".join(map(str, on)),
            f"{farthest:.1e}".replace("e-0", "e-") if farthest else "0",
            ", ".join(f"{each['virtual'] * 1e3:.1f}" for each in took),
            ", ".join(f"{each['wall']:.1f}" for each in took),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    rule = "| --- " * HEADER.count(" |") + "|"
    return "\n".join([HEADER + rule, *lines])


def main() -> None:
    found = table()
    print(found)
    PAGE.write_text(re.sub(re.escape(HEADER) + r"(\|.*\n)*", lambda _: found + "\n", PAGE.read_text()))


if __name__ == "__main__":
    main()
