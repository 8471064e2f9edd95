"""A small model in tensor and sequence parallelism, for ranks in turns: lab 18's run whose loss differs.

Its parameters are marked as Megatron-LM marks them:

    weight.tensor_model_parallel    each rank has its own shard
    weight.sequence_parallel        each rank has all of it, and computes its own tokens with it

One that has neither mark is on each rank, too, and each rank computes all tokens with it.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from .token_shards import AllGatherTokens, ReduceScatterTokens


class ParallelBlock(nn.Module):
    """`model(x, y)` is the loss of all tokens, on each rank. `state` is that of `WholeBlock` on one device."""

    def __init__(self, hidden: int, inner: int, classes: int, state: dict[str, torch.Tensor]):
        super().__init__()
        ranks, rank = dist.get_world_size(), dist.get_rank()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, inner // ranks)
        self.down = nn.Linear(inner // ranks, hidden)
        self.head = nn.Linear(hidden, classes)
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                sharded, sequence = name in ("up.weight", "up.bias", "down.weight"), name.startswith(("norm", "down.b"))
                whole = state[name]
                own = whole.chunk(ranks, 1 if name == "down.weight" else 0)[rank] if sharded else whole
                parameter.copy_(own)
                for mark, value in (("tensor_model_parallel", sharded), ("sequence_parallel", sequence)):
                    setattr(parameter, mark, value)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        own = x.chunk(dist.get_world_size())[dist.get_rank()]  # this rank's tokens
        inner = nn.functional.gelu(self.up(AllGatherTokens.apply(self.norm(own))))
        own = own + ReduceScatterTokens.apply(inner @ self.down.weight.T) + self.down.bias
        return nn.functional.cross_entropy(self.head(AllGatherTokens.apply(own, None, False)), y)


class WholeBlock(nn.Module):
    """The same on one device."""

    def __init__(self, hidden: int, inner: int, classes: int):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(hidden), nn.Linear(hidden, inner)
        self.down, self.head = nn.Linear(inner, hidden), nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.head(x + self.down(nn.functional.gelu(self.up(self.norm(x))))), y)


def broken_step(model: nn.Module, optimizer: torch.optim.Optimizer, x, y, max_norm: float) -> tuple[float, float]:
    """A training step that is right on one device, and wrong in tensor and sequence parallelism: loss and norm."""
    optimizer.zero_grad()
    loss = model(x, y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    return loss.item(), norm.item()
