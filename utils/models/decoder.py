"""A Llama-like decoder that can be taken apart: lab 19 trains it.

Without rotary positions; and with LayerNorm, which is one kernel on CUDA and on simgpu, where Llama has RMSNorm.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu


class Sizes(NamedTuple):
    """The sizes of a decoder: `heads` query heads and `kv_heads` heads of keys and values, each hidden / heads wide."""

    vocabulary: int
    hidden: int
    intermediate: int
    heads: int
    kv_heads: int
    blocks: int


class DecoderBlock(nn.Module):
    """(sequences, tokens, hidden) to the same shape. With fewer rows of `q`, `k` and `v` it has fewer heads."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        hidden, self.head_size = sizes.hidden, sizes.hidden // sizes.heads
        self.norm1, self.norm2 = (nn.LayerNorm(hidden, bias=False) for _ in range(2))
        self.q, self.o = (nn.Linear(hidden, hidden, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(hidden, sizes.kv_heads * self.head_size, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(hidden, sizes.intermediate, bias=False) for _ in range(2))
        self.down = nn.Linear(sizes.intermediate, hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (each(y).unflatten(-1, (-1, self.head_size)).transpose(1, 2) for each in (self.q, self.k, self.v))
        y = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Whole numbers (sequences, tokens) to logits (sequences, tokens, vocabulary).

    For a stage of a pipeline, delete blocks from `blocks`, by their names "0", "1", ..., and set `embed` to None, or
    `norm` and `head`: what is left keeps its names, and `forward` passes over what is not there.
    """

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.embed: nn.Embedding | None = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.blocks = nn.ModuleDict({str(number): DecoderBlock(sizes) for number in range(sizes.blocks)})
        self.norm: nn.LayerNorm | None = nn.LayerNorm(sizes.hidden, bias=False)
        self.head: nn.Linear | None = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.embed is not None:
            x = self.embed(x)
        for block in self.blocks.values():
            x = block(x)
        if self.norm is not None:
            x = self.norm(x)
        return x if self.head is None else self.head(x)
