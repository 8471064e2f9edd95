"""One layer of a Llama-like model, with the sizes of Llama 3.1 8B. Lesson 15 and its tasks use it."""

from torch import nn
from torch.nn.functional import scaled_dot_product_attention, silu

HIDDEN, INNER, HEADS, KEY_HEADS = 4096, 14336, 32, 8
SIZE = HIDDEN // HEADS


class LlamaBlock(nn.Module):
    """(sequences, tokens, HIDDEN) to the same shape.

    Without rotary positions; and with LayerNorm, which is one kernel on CUDA and on simgpu, where Llama has RMSNorm.
    """

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(HIDDEN, bias=False) for _ in range(2))
        self.q, self.o = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(HIDDEN, KEY_HEADS * SIZE, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (layer(y).unflatten(-1, (-1, SIZE)).transpose(1, 2) for layer in (self.q, self.k, self.v))
        y = scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(silu(self.gate(y)) * self.up(y))
