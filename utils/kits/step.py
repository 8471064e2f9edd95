"""Lab 15's block, what its operators produce and take, and the precision of a model's passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import nn
from torch.utils import checkpoint as checkpoints

from simgpu.torch_private import DispatchMode
from utils.exercises.ledger import adding_to
from utils.observe.trace import record


class GatedBlock(nn.Module):
    """A block as in Llama, with grouped queries and a gated MLP. Its norms are LayerNorm, which is one operator.

    `fused`: attention is one operator. Otherwise the scores and their softmax are tensors of their own.
    """

    def __init__(self, hidden_size: int, heads: int, kv_heads: int, intermediate_size: int, *, fused: bool = True):
        super().__init__()
        self.heads, self.kv_heads, self.fused = heads, kv_heads, fused
        kv_size = hidden_size // heads * kv_heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden_size), nn.LayerNorm(hidden_size)
        self.qkv = nn.Linear(hidden_size, hidden_size + 2 * kv_size, bias=False)
        self.out = nn.Linear(hidden_size, hidden_size, bias=False)
        self.gate = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = self.qkv(self.norm1(x)).unflatten(-1, (self.heads + 2 * self.kv_heads, -1)).transpose(1, 2)
        q, k, v = numbers.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        x = x + self.out(self._attended(q, k, v).transpose(1, 2).flatten(2))
        normed = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(normed)) * self.up(normed))

    def _attended(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if self.fused:
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        k, v = (each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (k, v))
        later = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(later, float("-inf"))
        return scores.softmax(-1) @ v


class LastTokenHead(nn.Module):
    """Logits of each sequence's last token."""

    def __init__(self, hidden_size: int, classes: int):
        super().__init__()
        self.norm, self.head = nn.LayerNorm(hidden_size), nn.Linear(hidden_size, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(x)[:, -1])


class ChunkedGate(nn.Module):
    """A gated MLP, without its output matrix, whose two matrices are the halves of one parameter."""

    def __init__(self, hidden_size: int, intermediate_size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2 * intermediate_size, hidden_size) / hidden_size**0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.weight.chunk(2)
        return nn.functional.silu(nn.functional.linear(x, gate)) * nn.functional.linear(x, up)


class Recomputed(nn.Module):
    """A block whose forward pass is computed again in the backward pass."""

    def __init__(self, block: nn.Module):
        super().__init__()
        self.block = block

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoints.checkpoint(self.block, x, use_reentrant=False)


class _Costs(DispatchMode):
    """The bytes of the outputs of each operator that runs on a device, and the seconds of its kernels."""

    def __init__(self, device: torch.device):
        super().__init__()
        self.device = device
        self.costs: dict[str, dict[str, float]] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        with record(self.device) as timeline:
            outputs = func(*args, **(kwargs or {}))
        if seconds := timeline.busy(self.device):
            cost = self.costs.setdefault(str(func), {"bytes": 0, "seconds": 0.0})
            tensors = outputs if isinstance(outputs, tuple) else (outputs,)
            cost["bytes"] += sum(each.nbytes for each in tensors if isinstance(each, torch.Tensor))
            cost["seconds"] += seconds
        return outputs


def operators_of(block: nn.Module, x: torch.Tensor) -> dict[str, dict[str, float]]:
    """The bytes that each operator of a forward pass produces, and the seconds of its kernels, by `str(operator)`.

    Views, which have no kernel, are left out.
    """
    with torch.no_grad(), _Costs(x.device) as costs:
        block(x)
    return costs.costs


def noted_precision(model: nn.Module) -> list[tuple[str, str]]:
    """A list that fills while a model's linear layers compute: ("forward", the output's dtype) and ("backward", ...).

    The latter says whether autocast is on: "on" or "off".
    """
    found: list[tuple[str, str]] = []
    note = adding_to(found)

    def forward(module, inputs, output):
        note(("forward", str(output.dtype)))
        if output.requires_grad:
            kind = output.device.type
            output.register_hook(lambda _: note(("backward", "on" if torch.is_autocast_enabled(kind) else "off")))

    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(forward)
    return found


def checkpointed_step(blocks: Iterable[nn.Module], x: torch.Tensor, context_fn: Callable | None, held: Callable):
    """(the loss, what `held()` returns after the forward pass) of one pass through blocks that are each checkpointed.

    `context_fn` is that of `torch.utils.checkpoint.checkpoint`, for all blocks. Without it, nothing is recomputed.
    """
    for block in blocks:
        if context_fn is None:
            x = block(x)
        else:
            x = checkpoints.checkpoint(block, x, use_reentrant=False, context_fn=context_fn)
    loss = x.square().mean()
    found = held()
    loss.backward()
    return loss, found
