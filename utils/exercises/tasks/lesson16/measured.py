"""What the facts about lesson 16's tasks measure on a rank, with the student's function. All returns are plain data."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import patch

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.functional import scaled_dot_product_attention

from utils.exercises.facts.probes import array
from utils.exercises.tasks.lesson16.worked import merge
from utils.observe.trace import record

HEADS, SIZE = 2, 8


def sequence(seed: int, tokens: int) -> torch.Tensor:
    """Queries, keys and values of the whole sequence: (3, 1, HEADS, tokens, SIZE)."""
    return torch.randn(3, 1, HEADS, tokens, SIZE, generator=torch.Generator().manual_seed(seed))


def block(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor | None = None):
    """(attention's output, its log-sum-exp) for these keys alone; of them, each query sees those that `seen` marks."""
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    lse = scores.logsumexp(-1, keepdim=True)
    return torch.nan_to_num((scores - lse).exp()) @ v, lse


def ring_on_a_rank(ring_attention: Callable, seed: int, tokens: int, causal: bool) -> dict:
    """This rank's output, the ranks whose keys `attend` was told that it gets, the bytes that this rank sends, and
    whether it receives into a tensor that it is sending."""
    rank, count = dist.get_rank(), dist.get_world_size()
    gpu, told, n = torch.device("simgpu", rank), [], tokens // count
    q, k, v = (each.chunk(count, 2)[rank].to(gpu) for each in sequence(seed, tokens))

    def attend(q, k, v, source):
        told.append(source)
        queries, keys = (torch.arange(n, device=gpu) + n * owner for owner in (rank, source))
        return block(q, k, v, keys <= queries[:, None] if causal else None)

    start, one_tensor = dist.batch_isend_irecv, []

    def watched(messages):
        sent, received = (
            {each.tensor.untyped_storage().data_ptr() for each in messages if each.op is op}
            for op in (dist.isend, dist.irecv)
        )
        one_tensor.append(bool(sent & received))
        return start(messages)

    with record(gpu) as timeline, patch.object(dist, "batch_isend_irecv", watched):
        found = ring_attention(q, k, v, attend, merge)
    if not isinstance(found, torch.Tensor):
        raise TypeError(f"ring_attention returned {type(found).__name__}. Return a tensor.")
    sent = [e.bytes for e in timeline.events if e.kind == "comm" and e.name != "recv"]
    given = k.nbytes + v.nbytes
    return {"out": array(found), "told": told, "sent": sum(sent), "given": given, "one_tensor": any(one_tensor)}


def ring_seconds(ring_attention: Callable, tokens: int) -> float:
    """How long the ring takes on all ranks, shapes only."""
    rank, count = dist.get_rank(), dist.get_world_size()
    gpu = torch.device("simgpu", rank)
    q, k, v = torch.empty(3, 1, 32, tokens // count, 128, device=gpu, dtype=torch.bfloat16)
    lse = torch.empty(1, 32, tokens // count, 1, device=gpu)

    def attend(q, k, v, source):
        return scaled_dot_product_attention(q, k, v), lse

    seconds = 0.0
    for _ in range(2):  # once to warm up
        torch.accelerator.synchronize()
        dist.barrier()
        with record(all_ranks=True) as timeline:
            ring_attention(q, k, v, attend, lambda out, lse, out2, lse2: (out, lse))
        seconds = timeline.span
    return seconds


def on_one_device(seed: int, tokens: int, causal: bool) -> np.ndarray:
    q, k, v = sequence(seed, tokens)
    return array(scaled_dot_product_attention(q, k, v, is_causal=causal))
