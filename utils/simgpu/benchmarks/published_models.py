"""Whole models that others measured, simulated: transformers (NeuSight), ResNet50 (NVIDIA's DeepLearningExamples) and
torchvision's at batch 12 (pytorch-gpu-benchmark). Nothing in the cost model was fitted to them. Run it by hand:

    .venv/bin/python -m utils.simgpu.benchmarks.published_models [WORD ...]

prints every row, or those whose description has one of the words.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from typing import NamedTuple

import torch
import torchvision
from torch import nn
from torch.nn import functional

import simgpu

from .measurements import DEVICE, FOLDER, simulate

# --- transformers, of the operators that Hugging Face's call ------------------------------------------------------


class Shape(NamedTuple):
    """A transformer as NeuSight ran it."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    longest: int
    kind: str  # bert, gpt2 or opt


SHAPES = {
    "bert_large": Shape(24, 1024, 16, 30522, 512, "bert"),
    "gpt2_large": Shape(36, 1280, 20, 50257, 1024, "gpt2"),
    "gpt3_xl": Shape(24, 3072, 24, 50257, 2048, "gpt2"),
    "gpt3_27": Shape(32, 2560, 32, 50257, 2048, "gpt2"),
    "opt_13": Shape(24, 2048, 32, 50272, 2048, "opt"),
}


class NewGelu(nn.Module):
    """GELU by its tanh, operator by operator: eight kernels where `nn.GELU` has one."""

    def forward(self, x):
        return 0.5 * x * (1.0 + torch.tanh(0.7978845608 * (x + 0.044715 * torch.pow(x, 3.0))))


class Attention(nn.Module):
    """Attention in steps: a batch of products, scaling, a mask, softmax, dropout, another batch of products."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = shape
        parts = [3 * shape.width] if shape.kind == "gpt2" else [shape.width] * 3
        self.inward = nn.ModuleList(nn.Linear(shape.width, part) for part in parts)
        self.outward = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        query, key, value = (
            part.view(*x.shape[:2], self.shape.heads, -1).transpose(1, 2)
            for layer in self.inward
            for part in layer(x).split(self.shape.width, dim=-1)
        )
        if self.shape.kind == "opt":
            query = query * key.shape[-1] ** -0.5
        scores = query @ key.transpose(-1, -2)
        if self.shape.kind != "opt":
            scores = scores / key.shape[-1] ** 0.5
        scores = self.masked(scores)
        attended = self.dropout(scores.softmax(-1)) @ value
        return self.outward(attended.transpose(1, 2).reshape(x.shape))

    def masked(self, scores):
        length, lowest = scores.shape[-1], torch.empty((), device=scores.device)
        if self.shape.kind == "gpt2":
            seen = torch.empty(1, 1, length, length, dtype=torch.bool, device=scores.device)
            return torch.where(seen, scores, lowest)
        scores = scores + torch.empty(scores.shape[0], 1, 1, length, device=scores.device)
        return torch.maximum(scores, lowest) if self.shape.kind == "opt" else scores


class Block(nn.Module):
    """Norms come after what they belong to in BERT, before in the others."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.after = shape.kind == "bert"
        self.attention = Attention(shape)
        activation = {"bert": nn.GELU, "gpt2": NewGelu, "opt": nn.ReLU}[shape.kind]
        wide = nn.Linear(shape.width, 4 * shape.width)
        self.feed_forward = nn.Sequential(wide, activation(), nn.Linear(4 * shape.width, shape.width))
        self.norms = nn.ModuleList(nn.LayerNorm(shape.width) for _ in range(2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        for norm, part in zip(self.norms, (self.attention, self.feed_forward), strict=True):
            x = norm(x + self.dropout(part(x))) if self.after else x + self.dropout(part(norm(x)))
        return x


class Transformer(nn.Module):
    """The model with its language head, which for BERT has a layer more."""

    def __init__(self, shape: Shape):
        super().__init__()
        self.words = nn.Embedding(shape.vocabulary, shape.width)
        self.places = nn.Embedding(shape.longest, shape.width)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        bert = shape.kind == "bert"
        self.pooler = nn.Linear(shape.width, shape.width) if bert else None
        more = [nn.Linear(shape.width, shape.width), nn.GELU(), nn.LayerNorm(shape.width)] if bert else []
        self.head = nn.Sequential(*more, nn.Linear(shape.width, shape.vocabulary, bias=bert))

    def forward(self, tokens):
        places = torch.zeros(tokens.shape[1], dtype=torch.long, device=tokens.device)
        x = self.blocks(self.norm(self.words(tokens) + self.places(places)))
        if self.pooler is not None:
            self.pooler(x[:, 0]).tanh()
        return self.head(x)


# --- rows ---------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """A measured pass of a model."""

    set: str
    gpu: str
    dtype: str
    direction: str
    params: dict
    seconds: float
    note: str

    @property
    def name(self) -> str:
        params = self.params
        return f"{params['model']} {params['mode']} batch {params['batch']} {self.direction} {self.dtype} {self.gpu}"

    @property
    def kind(self) -> str:
        """The kind of rows it is judged among."""
        training = "training" if self.params["mode"] == "train" else "inference"
        if self.set == "NeuSight":
            return f"transformers, {training}"
        if self.set == "pytorch-gpu-benchmark":
            return f"torchvision at batch 12, {self.dtype}"
        return f"{self.params['model']} {self.dtype}"


def models() -> list[Model]:
    """Every measured model, in the order of the file."""
    with open(FOLDER / "models.csv", newline="") as file:
        return [_model(line) for line in csv.DictReader(file)]


def _model(line: dict) -> Model:
    named = (line["source"].split(":")[0], line["gpu"], line["dtype"], line["pass"])
    return Model(*named, json.loads(line["params"]), float(line["measured_us"]) / 1e6, line["note"])


def predicted(row: Model) -> float:
    """Simulated seconds of a pass: of the clock, or of the kernels where those were measured."""
    simulate(row.gpu)
    simgpu.keep_log(0)
    simgpu.keep_log()
    forward, backward = _transformer(row) if row.set == "NeuSight" else _images(row)
    passes = {"fwd": [forward], "bwd": [backward], "e2e": [forward, backward], "kernels": [forward, backward]}
    wanted = [each for each in passes[row.direction] if each is not None]
    if row.direction == "bwd":
        forward()
    torch.simgpu.synchronize()
    before, begin = len(simgpu.log()), simgpu.now()
    for each in wanted:
        each()
    torch.simgpu.synchronize()
    if row.direction == "kernels":
        return sum(kernel.end - kernel.start for kernel in simgpu.log()[before:] if kernel.kind == "kernel")
    return simgpu.now() - begin


def _transformer(row: Model) -> tuple[Callable, Callable]:
    with torch.device(DEVICE):
        model = Transformer(SHAPES[row.params["model"]]).train(row.params["mode"] == "train")
    tokens = torch.zeros(row.params["batch"], row.params["seq"], dtype=torch.long, device=DEVICE)
    out = []

    def forward():
        with torch.set_grad_enabled(model.training):
            logits = model(tokens)
            if model.training:
                logits = functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
            out.append(logits)

    return forward, lambda: out.pop().backward()


def _images(row: Model) -> tuple[Callable, Callable | None]:
    """A model of torchvision. DeepLearningExamples trains with SGD; pytorch-gpu-benchmark copies its images and
    has no optimizer, but clears gradients to zero, as PyTorch did then.
    """
    training, half = row.params["mode"] == "train", row.dtype == "float16"
    mixed, copies = row.dtype == "amp", row.set == "pytorch-gpu-benchmark"
    with torch.device(DEVICE):
        model = getattr(torchvision.models, row.params["model"])()
    model = (model.half() if half else model).train(training)
    images = torch.empty(row.params["batch"], 3, 224, 224, dtype=torch.float16 if half else torch.float32)
    images = images if copies else images.to(DEVICE)
    if mixed:
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    labels = torch.zeros(row.params["batch"], dtype=torch.long, device=DEVICE)
    optimizer = None if copies else torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    out = []

    def forward():
        if copies and training:
            model.zero_grad(set_to_none=False)
        with torch.set_grad_enabled(training), torch.autocast("simgpu", dtype=torch.float16, enabled=mixed):
            logits = model(images.to(DEVICE))
        out.append(functional.cross_entropy(logits, labels) if training else logits)

    def backward():
        out.pop().backward()
        if optimizer is not None:
            optimizer.step()
            optimizer.zero_grad()

    if training:  # gradients and momentum are there from an earlier step
        forward()
        backward()
    return forward, backward if training else None


def main(words: list[str]) -> None:
    print(f"{'':<64}{'measured':>10}{'simulated':>11}{'':>8}")
    for row in models():
        if not words or any(word in f"{row.kind} {row.name}" for word in words):
            seconds = predicted(row)
            print(
                f"{row.name + ', ' + row.set:<64.64}{row.seconds * 1e3:>7.1f} ms{seconds * 1e3:>8.1f} ms"
                f"{seconds / row.seconds - 1:>+8.1%}"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
