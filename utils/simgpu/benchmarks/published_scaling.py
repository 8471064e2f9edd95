"""ResNet50 trained by DistributedDataParallel on 1 to 32 GPUs, beside what was published. Writes its table into
docs/times.md. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_scaling

Published: pytorch/examples' imagenet and NVIDIA's DeepLearningExamples as OneFlow's DLPerf ran them (V100-SXM2 with
16 GB, eight in a node, one adapter of 100 Gb/s a node), and NVIDIA's own table (DGX A100, DGX-1). This process is one
rank of as many as there are, which all do the same; with shapes only. Images are on the GPU from the beginning: no
loading of data is modelled. NVIDIA's script of 2020 took Apex's DDP, whose buckets are ten million numbers. Nothing is
fitted to it.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import NamedTuple

import torch
import torch.distributed as dist
import torchvision
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore

import simgpu
from simgpu.profiles import LINKS, NETWORKS

PAGE = Path(__file__).parents[3] / "docs" / "times.md"
HEADER = "| ResNet50, DDP | GPUs | published images/s | predicted | | published speed-up | predicted | |\n"
PER_NODE, STEPS = 8, 2
# Six links of a V100, as NCCL counts them: every GPU of a DGX-1V's rings has that.
DGX1 = dataclasses.replace(LINKS["nvlink2"], name="NVLink 2, six links", bandwidth=6 * 25e9, collective=6 * 20e9)
# A node's adapter is shared by its eight GPUs.
SHARED = dataclasses.replace(
    NETWORKS["100G"],
    name="100G a node",
    bandwidth=NETWORKS["100G"].bandwidth / PER_NODE,
    collective=NETWORKS["100G"].collective / PER_NODE,
)


class Case(NamedTuple):
    name: str
    gpu: str
    link: object
    batch: int  # a GPU
    published: dict[int, float]  # images a second of all GPUs
    mixed: bool = False
    channels_last: bool = False
    bucket: float = 25  # MiB


V100, A100 = ("V100", DGX1), ("A100-80GB-SXM", LINKS["nvlink3"])
CASES = (
    Case("pytorch/examples, V100, float32", *V100, 128, {1: 350.66, 4: 1306.49, 8: 2707.42, 16: 5193.09, 32: 10032.72}),
    Case("NVIDIA 2020, V100, float32", *V100, 128, {1: 367.29, 4: 1449.48, 8: 2887.65, 16: 5716.79, 32: 10917.09},
         bucket=40),
    Case("NVIDIA 2020, V100, AMP", *V100, 256, {1: 802.9, 4: 3137.44, 8: 6154.66, 16: 11991.94, 32: 22551.16},
         mixed=True, bucket=40),
    Case("NVIDIA 2021, V100, float32", *V100, 112, {1: 367, 8: 2855}),
    Case("NVIDIA 2021, V100, AMP, channels last", *V100, 256, {1: 1200, 8: 8322}, mixed=True, channels_last=True),
    Case("NVIDIA 2021, A100, TF32", *A100, 256, {1: 938, 8: 7248}),
    Case("NVIDIA 2021, A100, AMP, channels last", *A100, 256, {1: 2470, 8: 16621}, mixed=True, channels_last=True),
)  # fmt: skip


def images_a_second(case: Case, ranks: int) -> float:
    """Of all ranks together."""
    nodes = max(1, ranks // PER_NODE)
    simgpu.enable(count=1, gpu=case.gpu, link=case.link, nodes=nodes, network=SHARED, compute=False)
    torch.backends.cuda.matmul.allow_tf32 = True  # where the GPU has it; convolutions have it as it is
    os.environ["WORLD_SIZE"] = str(ranks)
    dist.init_process_group("simccl", store=FakeStore(), rank=0, world_size=ranks)
    layout = torch.channels_last if case.channels_last else torch.contiguous_format
    model = torchvision.models.resnet50().to("simgpu:0", memory_format=layout)
    parallel = DistributedDataParallel(model, bucket_cap_mb=case.bucket, gradient_as_bucket_view=case.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    images = torch.empty(case.batch, 3, 224, 224, device="simgpu:0").to(memory_format=layout)
    classes = torch.empty(case.batch, dtype=torch.int64, device="simgpu:0")
    for _ in range(STEPS):  # after the first DDP reorders its buckets
        torch.simgpu.synchronize()
        begin = simgpu.now()
        with torch.autocast("simgpu", dtype=torch.float16, enabled=case.mixed):
            loss = cross_entropy(parallel(images), classes)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.simgpu.synchronize()
        seconds = simgpu.now() - begin
    dist.destroy_process_group()
    return ranks * case.batch / seconds


def rows(case: Case) -> list[str]:
    found = {ranks: images_a_second(case, ranks) for ranks in case.published}
    lines = []
    for ranks, theirs in case.published.items():
        ours, name = found[ranks], case.name if ranks == 1 else ""
        cells = [name, f"{ranks}", f"{theirs:,.0f}", f"{ours:,.0f}", f"{ours / theirs - 1:+.0%}"]
        if ranks == 1:
            cells += ["", "", ""]
        else:
            once, again = theirs / case.published[1], ours / found[1]
            cells += [f"{once:.2f}", f"{again:.2f}", f"{again / once - 1:+.0%}"]
        lines.append("|" + "|".join(f" {cell} " if cell else " " for cell in cells) + "|")
    return lines


def main() -> None:
    rule = "| --- " * HEADER.count(" |") + "|"
    table = "\n".join([HEADER + rule, *(row for case in CASES for row in rows(case))])
    print(table)
    page = PAGE.read_text()
    PAGE.write_text(re.sub(re.escape(HEADER) + r"(\|.*\n)*", lambda _: table + "\n", page))


if __name__ == "__main__":
    main()
