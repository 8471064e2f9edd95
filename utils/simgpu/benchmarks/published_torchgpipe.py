"""torchgpipe's published ResNet-101 speeds on eight Tesla P40, predicted.

Published (kakaobrain/torchgpipe, benchmarks/resnet101-speed, version 0.0.5): images a second for one GPU and for
pipelines of 1, 2, 4 and 8, with the batch, the micro-batches and the balance of each; all but the last micro-batch
recompute their forward pass in the backward pass, and copies run on streams of their own. The same is built here
in plain PyTorch, in shape-only mode. Only the micro-batches are fewer: the time of a step is linear in them once the
pipeline is full, so it is taken from two numbers of them and continued to the published one. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_torchgpipe
"""

import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torchvision.models import resnet101

import simgpu

SIZE, CLASSES = 224, 1000
# name: batch, micro-batches, layers on each GPU, published images a second
PUBLISHED = {
    "baseline": (118, 1, [370], 95.862),
    "pipeline-1": (220, 2, [370], 81.796),
    "pipeline-2": (25000, 1667, [135, 235], 135.539),
    "pipeline-4": (5632, 256, [44, 92, 124, 110], 265.958),
    "pipeline-8": (5400, 150, [26, 22, 33, 44, 44, 66, 66, 69], 411.662),
}


class Keep(nn.Module):
    """Remembers its input for the end of the block."""

    def forward(self, x, kept):
        return x, x


class Add(nn.Module):
    """Adds what was remembered."""

    def __init__(self, downsample):
        super().__init__()
        self.downsample = downsample

    def forward(self, x, kept):
        return x + (kept if self.downsample is None else self.downsample(kept)), None


class Layer(nn.Module):
    """A layer that leaves what is remembered alone."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x, kept):
        return self.module(x), kept


def layers() -> list[nn.Module]:
    """ResNet-101 as 370 layers in a row, counted as torchgpipe counts them."""
    model = resnet101(num_classes=CLASSES)
    row = [Layer(module) for module in (model.conv1, model.bn1, model.relu, model.maxpool)]
    for block in (*model.layer1, *model.layer2, *model.layer3, *model.layer4):
        row.append(Keep())
        for conv, norm in ((block.conv1, block.bn1), (block.conv2, block.bn2)):
            row += [Layer(conv), Layer(norm), Layer(nn.ReLU())]
        row += [Layer(block.conv3), Layer(block.bn3), Add(block.downsample), Layer(nn.ReLU())]
    return [*row, Layer(model.avgpool), Layer(nn.Flatten()), Layer(model.fc)]


class Stage(nn.Module):
    def __init__(self, row, number: int):
        super().__init__()
        self.row = nn.ModuleList(row).to(f"simgpu:{number}")

    def forward(self, x, kept=None):
        for layer in self.row:
            x, kept = layer(x, kept)
        return x, kept


class Pipeline:
    """GPipe's schedule: in each tick every stage has the micro-batch that follows the next stage's."""

    def __init__(self, balance):
        row, begin = layers(), 0
        self.stages = []
        for number, count in enumerate(balance):
            self.stages.append(Stage(row[begin : begin + count], number))
            begin += count
        count = len(balance)
        self.copying = [torch.simgpu.Stream(f"simgpu:{i}") for i in range(count)] if count > 1 else []

    def move(self, state, number: int):
        """Copy from a stage to the next on streams that do nothing else."""
        source, target = self.copying[number], self.copying[number + 1]
        source.wait_stream(torch.simgpu.current_stream(number))
        with source, target:
            state = tuple(t if t is None else t.to(f"simgpu:{number + 1}") for t in state)
        torch.simgpu.current_stream(number + 1).wait_stream(target)
        return state

    def step(self, optimizer, micro_batch: int, count: int, recompute: bool) -> None:
        last = len(self.stages) - 1
        states = [(torch.empty(micro_batch, 3, SIZE, SIZE, device="simgpu:0"), None) for _ in range(count)]
        for tick in range(count + last):
            for number in range(last, -1, -1):
                piece = tick - number
                if 0 <= piece < count:
                    stage, state = self.stages[number], states[piece]
                    if recompute and piece < count - 1:
                        state = checkpoint(stage, *state, use_reentrant=False)
                    else:
                        state = stage(*state)
                    states[piece] = state if number == last else self.move(state, number)
        out = torch.cat([x for x, _ in states])
        target = torch.zeros(micro_batch * count, dtype=torch.long, device=f"simgpu:{last}")
        nn.functional.cross_entropy(out, target).backward()
        optimizer.step()
        optimizer.zero_grad()


def seconds(balance, micro_batch: int, count: int, recompute: bool) -> float:
    """Simulated seconds of one training step, the second of two."""
    simgpu.enable(count=64)  # another machine first, so that the next one is new
    simgpu.enable(count=len(balance), gpu="P40", link="pcie3", compute=False)
    simgpu.keep_log(0)
    pipeline = Pipeline(balance)
    optimizer = torch.optim.SGD([p for stage in pipeline.stages for p in stage.parameters()], lr=0.1)
    for _ in range(2):
        torch.accelerator.synchronize()
        begin = simgpu.now()
        pipeline.step(optimizer, micro_batch, count, recompute)
        for number in range(len(balance)):
            torch.simgpu.synchronize(number)
    simgpu.keep_log()
    return simgpu.now() - begin


def predicted(name: str) -> float:
    """Simulated images a second."""
    batch, count, balance, _ = PUBLISHED[name]
    micro_batch = round(batch / count)
    few = min(count, 2 * len(balance))
    if count <= few:
        return micro_batch * count / seconds(balance, micro_batch, count, name != "baseline")
    first, second = (seconds(balance, micro_batch, m, True) for m in (few, 2 * few))
    return micro_batch * count / (first + (second - first) / few * (count - few))


def main() -> None:
    begin = time.perf_counter()
    speed = {name: predicted(name) for name in PUBLISHED}
    print("P40, simulated   images/s  published   speed-up  published   error of the speed-up")
    for name, (_, _, _, published) in PUBLISHED.items():
        ours, theirs = speed[name] / speed["baseline"], published / PUBLISHED["baseline"][3]
        print(f"{name:<14}{speed[name]:>11.1f}{published:>11.1f}{ours:>11.3f}{theirs:>11.3f}{ours / theirs - 1:>12.1%}")
    print(f"in {time.perf_counter() - begin:.0f} s here")


if __name__ == "__main__":
    main()
