"""What the facts of lesson 15 show to a function, and measure on a rank: a simulated H100, shapes only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from utils.models.llama_block import HIDDEN, LlamaBlock
from utils.observe.trace import Event, Timeline, record

LENGTH = 8192


def block_with_policy(policy: Callable) -> dict[str, float]:
    """One block's bytes kept per element of its input, and seconds of its forward and backward pass."""
    gpu = torch.device("simgpu:0")
    memory = torch.get_device_module(gpu).memory_allocated
    with gpu:
        block = LlamaBlock().bfloat16()
    x = torch.empty(1, LENGTH, HIDDEN, device=gpu, dtype=torch.bfloat16, requires_grad=True)

    def asked(*args, **kwargs):
        answer = policy(*args, **kwargs)
        if not isinstance(answer, CheckpointPolicy):
            raise TypeError(f"policy returned {answer!r}. Return a CheckpointPolicy.")
        return answer

    contexts = partial(create_selective_checkpoint_contexts, asked)

    def step() -> int:
        """Returns the bytes that are kept, the block's input included and its output not."""
        block.zero_grad()
        before = memory(gpu)
        y = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
        kept = memory(gpu) - before - y.nbytes + x.nbytes
        y.backward(torch.ones_like(y))
        return kept

    step()  # to warm up
    with record(gpu) as timeline:
        kept = step()
    return {"kept": kept / x.numel(), "seconds": timeline.busy(gpu)}


def timeline_of(kernels: list[tuple[str, float, int, float]]) -> Timeline:
    """One GPU's kernels: each one's name, seconds, operations, and the idle seconds after it."""
    now, events = 10.0, []
    for name, seconds, flops, idle in kernels:
        events.append(Event("simgpu:0", 0, name, "kernel", "forward", now, now + seconds, flops=flops))
        now += seconds + idle
    return Timeline(("simgpu:0",), tuple(events), 10.0, now, "made up")
