"""What lab 16 measures its answers with: bytes on the wire and of new tensors, and a small causal model.

The model's sequence is sharded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn
from torch.multiprocessing.reductions import StorageWeakRef

from simgpu.torch_private import DispatchMode
from utils.kits.ranks_in_turns import Called
from utils.models.gpt import turned

VOCABULARY, HIDDEN, HEADS = 50, 16, 2


def sent_by(rank: int, called: Iterable[Called]) -> int:
    """The bytes that a rank sends where collectives go around a ring, as in lesson 11."""
    return sum(on_the_wire(one) for one in called if one.rank == rank)


def calls_of(rank: int, called: Iterable[Called]) -> list[list]:
    """[call, bytes of its input, bytes on the wire, to which rank] of each call of a rank, as plain data."""
    return [[one.call, one.bytes, on_the_wire(one), one.to] for one in called if one.rank == rank]


def on_the_wire(one: Called) -> int:
    others = one.ranks - 1
    if one.call == "all_gather":
        return one.bytes * others
    if one.call in ("reduce_scatter", "all_to_all"):
        return one.bytes * others // one.ranks
    if one.call == "all_reduce":
        return 2 * one.bytes * others // one.ranks
    return one.bytes


def made_by(function: Callable) -> tuple[Any, int, int]:
    """What `function()` returns, the bytes of new tensors that are left, and the most that there were at a time.

    Tensors that this rank had before do not count. Those that autograd keeps do.
    """
    with _Living() as living:
        found = function()
        return found, living.now(), living.peak


class _Living(DispatchMode):
    """Counts the bytes of the tensors that operators make."""

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}
        self._others: dict[int, StorageWeakRef] = {}  # those that were there before

    def now(self) -> int:
        self._made = {key: one for key, one in self._made.items() if not one[0].expired()}
        self._others = {key: one for key, one in self._others.items() if not one.expired()}
        return sum(size for _, size in self._made.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.now()
        for storage in _storages((args, kwargs)):
            if storage._cdata not in self._made:
                self._others[storage._cdata] = StorageWeakRef(storage)
        found = func(*args, **(kwargs or {}))
        for storage in _storages(found):
            if storage._cdata not in self._others:
                self._made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, self.now())
        return found


def _storages(values) -> list[torch.UntypedStorage]:
    if isinstance(values, torch.Tensor):
        return [values.untyped_storage()]
    if isinstance(values, dict):
        values = list(values.values())
    return [one for each in values for one in _storages(each)] if isinstance(values, (list, tuple)) else []


def _weights() -> dict[str, torch.Tensor]:
    numbers = torch.Generator().manual_seed(0)
    shapes = {"embed": (VOCABULARY, HIDDEN), "qkv": (3 * HIDDEN, HIDDEN)}
    return {
        name: torch.randn(shape, generator=numbers, dtype=torch.float64).requires_grad_()
        for name, shape in shapes.items()
    }


def rotary_tables(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    half = HIDDEN // HEADS // 2
    angles = torch.outer(torch.arange(length), 1e2 ** (-torch.arange(half, dtype=torch.float64) / half))
    return angles.cos(), angles.sin()


def _projected(weights, inputs, cos, sin):
    x = nn.functional.embedding(inputs, weights["embed"])
    qkv = nn.functional.linear(x, weights["qkv"])
    q, k, v = qkv.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    return x, turned(q, cos, sin), turned(k, cos, sin), v


def _logits(weights, x, attended):
    return nn.functional.linear(x + attended.transpose(1, 2).flatten(2), weights["embed"])


def loss_on_one_device(tokens: torch.Tensor) -> tuple[float, dict[str, torch.Tensor], torch.Tensor]:
    """The loss, the gradients and the logits of a causal model that has one block of attention."""
    weights, inputs = _weights(), tokens[:, :-1]
    x, q, k, v = _projected(weights, inputs, *rotary_tables(inputs.shape[1]))
    logits = _logits(weights, x, nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    return loss.item(), _gradients(weights), logits.detach()


def loss_on_ranks(
    tokens: torch.Tensor, ranks: int, rank_inputs: Callable, visible: Callable, in_order: Callable
) -> tuple[float, dict[str, torch.Tensor], torch.Tensor, list[int]]:
    """The same with the sequence on several ranks, all in one loop, and the pairs that each rank computes."""
    weights, length = _weights(), tokens.shape[1] - 1
    cos, sin = rotary_tables(length)
    parts = []
    for rank in range(ranks):
        inputs, labels, _, own_cos, own_sin = rank_inputs(tokens, cos, sin, rank, ranks)
        parts.append((labels, *_projected(weights, inputs, own_cos, own_sin)))
    loss, logits, pairs = torch.zeros((), dtype=torch.float64), [], [0] * ranks
    for rank, (labels, x, q, _, _) in enumerate(parts):
        scores = q.new_full((*q.shape[:3], length), float("-inf"))
        values = []
        for step in range(ranks):
            owner = (rank - step) % ranks
            _, _, _, k, v = parts[owner]
            rows, columns, mask = visible(rank, owner, ranks, length)
            found = q[:, :, rows] @ k[:, :, columns].transpose(-1, -2) / q.shape[-1] ** 0.5
            pairs[rank] += found.shape[-2] * found.shape[-1]
            if mask is not None:
                found = found.masked_fill(~mask, float("-inf"))
            block = q.new_full((*q.shape[:3], k.shape[2]), float("-inf"))
            block[:, :, rows, columns] = found
            scores[..., step * k.shape[2] : (step + 1) * k.shape[2]] = block
            values.append(v)
        logits.append(_logits(weights, x, scores.softmax(-1) @ torch.cat(values, dim=2)))
        loss = loss + nn.functional.cross_entropy(logits[-1].flatten(0, 1), labels.flatten(), reduction="sum")
    loss = loss / (tokens.shape[0] * length)
    loss.backward()
    return loss.item(), _gradients(weights), in_order([each.detach() for each in logits], 1), pairs


def _gradients(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: each.grad for name, each in weights.items() if each.grad is not None}
