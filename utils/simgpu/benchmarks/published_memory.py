"""Published memory of whole training runs, predicted.

Each run is done in shape-only mode, with the settings of its source, and the figure that was published is set beside
torch.simgpu's: allocated (by tensors) where the source counts that; what is reserved (by PyTorch) where it counts
that, or the board's memory (nvidia-smi), of which what it held before the model is taken off. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_memory
"""

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional
from torchvision.models import vit_l_16

import simgpu

GPU = "simgpu:0"
GB, GIB, MIB = 1e9, 2**30, 2**20


class Row(NamedTuple):
    """One published figure, in bytes, and how ours is got."""

    what: str
    counted: str
    published: float
    run: Callable[[], None]
    source: str


# --- U-Net, torchgpipe -------------------------------------------------------------------------------------------


def convolutions(channels: Iterator[int]) -> nn.Sequential:
    channels = list(channels)
    layers = []
    for before, after in pairwise(channels):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.Dropout2d(0.1), nn.InstanceNorm2d(after)]
        layers.append(nn.LeakyReLU(0.01))
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """torchgpipe's simplified U-Net (B, C): B convolutions at each of five levels, of C channels at the first."""

    def __init__(self, b: int, c: int, depth: int = 5):
        super().__init__()
        widths = [3, *(c * 2**level for level in range(depth))]
        self.down = nn.ModuleList(convolutions([before] + [after] * b) for before, after in pairwise(widths))
        self.bottom = convolutions([widths[-1]] + [2 * widths[-1]] * (b - 1) + [widths[-1]])
        self.up = nn.ModuleList(convolutions([2 * width] + [width // 2] * b) for width in reversed(widths[1:]))
        self.out = nn.Conv2d(c // 2, 1, 1, bias=False)

    def forward(self, x):
        kept = []
        for level in self.down:
            x = level(x)
            kept.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for level in self.up:
            x = level(torch.cat((functional.interpolate(x, scale_factor=2), kept.pop()), dim=1))
        return self.out(x)


def unet() -> None:
    model = UNet(6, 72).to(GPU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = torch.empty(32, 3, 192, 192, device=GPU), torch.empty(32, 1, 192, 192, device=GPU)
    for _ in range(2):
        functional.binary_cross_entropy_with_logits(model(x), target).backward()
        optimizer.step()


# --- ViT-L/16, PyTorch's tutorial on the optimizer in the backward pass ------------------------------------------


def vit(optimizer: Callable) -> None:
    model = vit_l_16().to(GPU)
    step, zero_grad = optimizer(model)
    for _ in range(3):
        model(torch.empty(1, 3, 224, 224, device=GPU)).sum().backward()
        step()
        zero_grad()


def adam(model):
    optimizer = torch.optim.Adam(model.parameters())
    return optimizer.step, optimizer.zero_grad


def in_backward(model):
    optimizers = {p: torch.optim.Adam([p], foreach=False) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    return (lambda: None), (lambda: None)


# --- BERT-large, Hugging Face's "model training anatomy" ----------------------------------------------------------


class BertLayer(nn.Module):
    """A layer as transformers wrote it in January 2022: attention in single steps, dropout three times."""

    def __init__(self, width=1024, heads=16):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x, mask):
        query, key, value = (
            layer(x).view(*x.shape[:2], self.heads, -1).permute(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) / query.shape[-1] ** 0.5 + mask
        attended = torch.matmul(self.dropout(scores.softmax(-1)), value).permute(0, 2, 1, 3).contiguous()
        x = self.norms[0](self.dropout(self.output(attended.view(x.shape))) + x)
        return self.norms[1](self.dropout(self.narrow(functional.gelu(self.wide(x)))) + x)


class Bert(nn.Module):
    """bert-large-uncased with a head for two classes."""

    def __init__(self, width=1024, layers=24, words=30522, positions=512):
        super().__init__()
        self.words, self.positions, self.kinds = (nn.Embedding(n, width) for n in (words, positions, 2))
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)
        self.layers = nn.ModuleList(BertLayer(width) for _ in range(layers))
        self.pooler, self.classes = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, tokens):
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.kinds(torch.zeros_like(tokens)) + self.positions(places)
        x = self.dropout(self.norm(x))
        mask = torch.zeros(tokens.shape[0], 1, 1, tokens.shape[1], device=tokens.device)
        for layer in self.layers:
            x = layer(x, mask)
        return self.classes(self.dropout(torch.tanh(self.pooler(x[:, 0]))))


def bert() -> None:
    model = Bert().to(GPU)
    # transformers' own AdamW of that time went through the weights one by one.
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    for _ in range(2):
        tokens = torch.zeros(4, 512, dtype=torch.long, device=GPU)
        functional.cross_entropy(model(tokens), torch.zeros(4, dtype=torch.long, device=GPU)).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)  # as PyTorch did it then: gradients stay through the next forward pass


def bert_weights() -> None:
    Bert().to(GPU)


ANATOMY = "Hugging Face, model_memory_anatomy.md, V100; 1,343 MiB before the model taken off"
TUTORIAL = "PyTorch tutorials, optimizer_step_in_backward_tutorial.py; 'about'"
ROWS = (
    Row("U-Net (6, 72), batch 32, SGD", "reserved", 20.3 * GIB, unet, "kakaobrain/torchgpipe, unet-memory, P40"),
    Row("ViT-L/16, batch 1, Adam", "allocated", 6.0 * GB, lambda: vit(adam), TUTORIAL),
    Row("ViT-L/16, Adam in the backward pass", "allocated", 4.0 * GB, lambda: vit(in_backward), TUTORIAL),
    Row("BERT-large, the model alone", "nvidia-smi", (2631 - 1343) * MIB, bert_weights, ANATOMY),
    Row("BERT-large, batch 4 x 512, AdamW", "nvidia-smi", (14949 - 1343) * MIB, bert, ANATOMY),
)


def predicted(row: Row) -> float:
    """Simulated bytes at the peak of a run."""
    simgpu.enable(count=2)  # another machine first, so that the next one is new
    simgpu.enable(count=1, gpu="A100", compute=False, memory=10**12)
    simgpu.keep_log(0)
    row.run()
    simgpu.keep_log()
    allocated = row.counted == "allocated"
    return torch.simgpu.max_memory_allocated(0) if allocated else torch.simgpu.max_memory_reserved(0)


def main() -> None:
    begin = time.perf_counter()
    print(f"{'GB':<38}{'counted':<12}{'predicted':>9}{'published':>11}{'error':>8}   source")
    for row in ROWS:
        ours = predicted(row)
        numbers = f"{ours / GB:>9.2f}{row.published / GB:>11.2f}{ours / row.published - 1:>8.1%}"
        print(f"{row.what:<38}{row.counted:<12}{numbers}   {row.source}")
    print(f"in {time.perf_counter() - begin:.0f} s here")


if __name__ == "__main__":
    main()
