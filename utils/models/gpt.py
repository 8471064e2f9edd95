"""A small GPT, as somebody else would have written it: the model that lesson and lab 07 split.

Rotary tables tell its blocks the places of the words, and the head shares its weight with the embedding. There is no
dropout, so that a split model and the whole one can be compared.
"""

from __future__ import annotations

import torch
from torch import nn


class GPT(nn.Module):
    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(self, words: int, width: int, heads: int, blocks: int, longest: int = 1024):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight  # one parameter in two places
        half = width // heads // 2
        angles = torch.outer(torch.arange(longest), 1e4 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, words):
        length = words.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]
        x = self.embed(words)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x, cos, sin):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


def turned(x, cos, sin):
    """`x` with each pair of its numbers turned by the angle of its place."""
    one, two = x.chunk(2, -1)
    return torch.cat((one * cos - two * sin, one * sin + two * cos), -1)
