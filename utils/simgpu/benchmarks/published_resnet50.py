"""The published ResNet50 experiment, predicted: one GPU, a naive split over two, and the split pipelined.

3 batches of 120 images of 128 x 128, forward and backward, on two simulated GPUs in shape-only mode. The
published figures (PyTorch's tutorial "Single-Machine Model Parallel Best Practices", withdrawn) name no
hardware: the naive split took 7% longer than one GPU, pipelining was 1.49 times as fast as one GPU at split
20 and 1.54 at 12, and 12 was the best of nine. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_resnet50 [PROFILE ...]
"""

import sys
import time

import torch
from torch import nn
from torchvision.models.resnet import Bottleneck, ResNet

import simgpu
from simgpu.profiles import GPUS

BATCHES, IMAGES, SIZE, CLASSES = 3, 120, 128, 1000
PUBLISHED = {12: 1.54, 20: 1.49}  # speed-up by split size; naive split +7%
SPLITS = (1, 3, 5, 8, 10, 12, 20, 40, 60)
# The link that a pair of each had in its time.
LINK = {"T4": "pcie3", "P40": "pcie3", "GP100": "pcie3", "V100": "nvlink2", "A100": "nvlink3", "H100": "nvlink4"}
LINK |= dict.fromkeys(("P4", "P100", "V100-PCIe", "2080Ti"), "pcie3") | dict.fromkeys(("H200", "B200"), "nvlink4")
LINK |= dict.fromkeys(("L4", "A40", "A100-40GB-PCIe", "A100-80GB-PCIe"), "pcie4") | {"A100-80GB-SXM": "nvlink3"}
FIRST, SECOND = "simgpu:0", "simgpu:1"


class Whole(ResNet):
    def __init__(self):
        super().__init__(Bottleneck, [3, 4, 6, 3], num_classes=CLASSES)


class Split(Whole):
    """The stem and two stages on the first GPU, two stages and the head on the second; `size` images at a time."""

    def __init__(self, size=IMAGES):
        super().__init__()
        self.size = size
        stem = (self.conv1, self.bn1, self.relu, self.maxpool)
        self.part0 = nn.Sequential(*stem, self.layer1, self.layer2).to(FIRST)
        self.part1 = nn.Sequential(self.layer3, self.layer4, self.avgpool).to(SECOND)
        self.fc.to(SECOND)

    def forward(self, x):
        results = []
        waiting = None
        for piece in (*x.split(self.size), None):
            if waiting is not None:
                results.append(self.fc(self.part1(waiting).flatten(1)))
            if piece is not None:
                waiting = self.part0(piece).to(SECOND)
        return torch.cat(results)


def seconds(model) -> float:
    """Simulated seconds for the experiment."""
    last = next(reversed(list(model.parameters()))).device

    def batch():
        outputs = model(torch.randn(IMAGES, 3, SIZE, SIZE).to(FIRST))
        labels = torch.zeros(IMAGES, CLASSES).to(last)
        nn.functional.mse_loss(outputs, labels).backward()

    torch.simgpu.synchronize(FIRST)  # on the virtual clock no warm-up is needed: every batch takes the same time
    torch.simgpu.synchronize(SECOND)
    begin = simgpu.now()
    for _ in range(BATCHES):
        batch()
    torch.simgpu.synchronize(FIRST)
    torch.simgpu.synchronize(SECOND)
    return simgpu.now() - begin


def main(names) -> None:
    print(f"{'simulated: 2 x':<16}{'naive split':>12}" + "".join(f"{f'split {s}':>10}" for s in SPLITS) + "   best")
    published = "".join(f"{PUBLISHED.get(size, ''):>10}" for size in SPLITS)
    print(f"{'published':<16}{'+7.0%':>12}{published}   12")
    for name in names or LINK:
        begin = time.perf_counter()
        simgpu.enable(count=2, gpu=GPUS[name], link=LINK[name], compute=False)
        one = seconds(Whole().to(FIRST))
        naive = seconds(Split())
        pipelined = {size: one / seconds(Split(size)) for size in SPLITS}
        best = max(pipelined, key=pipelined.get)
        row = "".join(f"{speedup:>10.2f}" for speedup in pipelined.values())
        took = time.perf_counter() - begin
        print(f"{name + ', ' + LINK[name]:<16}{naive / one - 1:>+12.1%}{row}   {best:<4} ({took:.0f} s here)")


if __name__ == "__main__":
    main(sys.argv[1:])
