"""A layer of MPT, which lies on one GPU, or on several by tensor and sequence parallelism."""

from __future__ import annotations

from torch import nn
from torch.nn.functional import gelu, scaled_dot_product_attention


class MptLayer(nn.Module):
    """A block of MPT (mosaicml/llm-foundry): layer norms without bias, one product for queries, keys, values; GELU."""

    class Attention(nn.Module):
        def __init__(self, width: int, heads: int, size: int):
            super().__init__()
            self.size = size
            self.qkv = nn.Linear(width, 3 * heads * size, bias=False)
            self.o = nn.Linear(heads * size, width, bias=False)

        def forward(self, x):
            q, k, v = (each.unflatten(-1, (-1, self.size)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
            return self.o(scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))

    class Mlp(nn.Module):
        def __init__(self, width: int, hidden: int):
            super().__init__()
            self.up, self.down = nn.Linear(width, hidden, bias=False), nn.Linear(hidden, width, bias=False)

        def forward(self, x):
            return self.down(gelu(self.up(x)))

    def __init__(self, width: int, heads: int, hidden: int, size: int):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(width, bias=False) for _ in range(2))
        self.attention: nn.Module = self.Attention(width, heads, size)
        self.mlp: nn.Module = self.Mlp(width, hidden)

    def forward(self, x, _):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))
