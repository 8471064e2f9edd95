"""A model as the planner sees it: blocks one after the other, each of which can be traced for a share of its work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import NamedTuple

import torch
from torch import nn

from simgpu.profiles import GpuProfile
from utils.common.errors import Problem

from . import llama as written
from .context import RingAttention
from .experts import RoutedMlp
from .mpt_layer import MptLayer
from .nanotron_layer import NanotronHead, NanotronLayer
from .trace import Collective, ShardedApart, Trace, record_collective, trace

Inputs = tuple[torch.Tensor, ...]


class Split(NamedTuple):
    """How many GPUs share a block's work: its products, its sequence, its experts."""

    tensor: int = 1
    context: int = 1
    experts: int = 1


@dataclass(frozen=True)
class BlockSpec:
    """A part of a model. Blocks of equal `key` do the same.

    `make(split)` is the module of one of the GPUs that share it, `inputs(rows, split)` what it gets there, on "meta",
    and `norms` how wide each of its norms is, whose gradients the GPUs that share its products add up.
    """

    key: tuple
    make: Callable[[Split], nn.Module]
    inputs: Callable[[int, Split], Inputs]
    norms: tuple[int, ...] = ()

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other) -> bool:
        return self.key == other.key

    @lru_cache(maxsize=4096)  # noqa: B019  blocks are few, and equal ones are one
    def traced(self, gpu: GpuProfile, rows: int, split: Split, selective: bool) -> Trace:
        """What it does with so many rows of the batch."""

        def make():
            module = self.make(split).to(torch.bfloat16)
            return written.Selective(module) if selective else module

        found = trace(make, self.inputs(rows, split), gpu)
        if split.tensor == 1:
            return found
        shared = tuple(each for width in self.norms for each in (gpu.shortest, Collective("all_reduce", 4 * width)))
        return found._replace(backward=found.backward + shared)


@dataclass(frozen=True)
class Model:
    """Blocks, of which the first and the last may be special and those between are layers.

    `tokens` are what one row of the batch counts for, `divided` what tensor parallelism has to divide, by name, and
    `experts` how many each layer has. `sizes` are those that `llama` was given, None for other models.
    """

    name: str
    blocks: tuple[BlockSpec, ...]
    tokens: int
    divided: tuple[tuple[str, int], ...] | None = None
    sizes: tuple[tuple[str, int], ...] | None = None
    experts: int = 0

    def why_not(self, split: Split) -> str | None:
        """Why GPUs cannot share each block so; None where they can."""
        tensor, context, experts = split
        if tensor > 1 and self.divided is None:
            return "tensor parallelism needs a model whose cut is known: this one is a plain nn.Module"
        wrong = next((f"{name} ({count})" for name, count in self.divided or () if count % tensor), None)
        if wrong:
            return f"tensor parallelism of {tensor} does not divide the {wrong}"
        if context > 1 and self.sizes is None:
            return "context parallelism needs a model of llama(...): how others attend is not known here"
        if self.tokens % (2 * context * tensor) and context > 1:
            return f"context parallelism of {context} does not divide {self.tokens} tokens into two chunks a GPU"
        if experts > 1 and (not self.experts or self.experts % experts):
            return f"expert parallelism of {experts} does not divide the {self.experts} experts"
        if self.experts and tensor > 1:
            return "tensor parallelism of experts is not estimated"
        return None

    @property
    def layers(self) -> int:
        return len(self.blocks) - self.ends

    @property
    def ends(self) -> int:
        """How many blocks are no layers: embedding and head."""
        return 2 if self.divided is not None else 0


# --- a Llama-like one ---------------------------------------------------------------------------------------------


def llama(
    layers: int = 32,
    hidden_size: int = 4096,
    heads: int = 32,
    kv_heads: int | None = None,
    intermediate_size: int = 14336,
    vocab_size: int = 128256,
    length: int = 8192,
    name: str = "",
    experts: int = 0,
    per_token: int = 2,
    head_size: int | None = None,
) -> Model:
    """A Llama-like model by its sizes. Problem, in one line, for sizes that make none.

    With `experts` each layer has so many feed-forward networks, of which a token takes `per_token` (as Mixtral). A
    head is `hidden_size` / `heads` wide, or `head_size`.
    """
    kv_heads = heads if kv_heads is None else kv_heads
    sizes = {
        "layers": layers,
        "hidden_size": hidden_size,
        "heads": heads,
        "kv_heads": kv_heads,
        "intermediate_size": intermediate_size,
    }
    for what, number in (sizes | {"vocab_size": vocab_size, "length": length}).items():
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise Problem(f"{what}={number!r}: give a whole number, 1 or more")
    if head_size is None and hidden_size % (2 * heads):
        raise Problem(
            f"hidden_size={hidden_size} is no even multiple of heads={heads}: rotary positions turn pairs of numbers"
        )
    if head_size is not None and (head_size < 2 or head_size % 2):
        raise Problem(f"head_size={head_size!r}: give an even number, since rotary positions turn pairs of numbers")
    if heads % kv_heads:
        raise Problem(
            f"heads={heads} is no multiple of kv_heads={kv_heads}: heads share keys and values in equal groups"
        )
    if isinstance(experts, bool) or not isinstance(experts, int) or experts < 0 or not 1 <= per_token <= (experts or 9):
        raise Problem(
            f"experts={experts!r}, per_token={per_token!r}: give none, or so many that a token has its choice"
        )
    size = head_size or hidden_size // heads

    def rows(count: int, split: Split) -> torch.Tensor:
        tokens = length // split.context // split.tensor
        return torch.empty(count, tokens, hidden_size, dtype=torch.bfloat16, device="meta")

    def words(count: int, split: Split) -> torch.Tensor:
        return torch.empty(count, length // split.context, dtype=torch.int64, device="meta")

    def angles(split: Split) -> torch.Tensor:
        return torch.empty(1, length // split.context, 1, size // 2, dtype=torch.complex64, device="meta")

    def embedding(split: Split) -> nn.Module:
        if split.tensor == 1:
            return nn.Embedding(vocab_size, hidden_size)
        return _Words(vocab_size // split.tensor, hidden_size, split.tensor)

    first = BlockSpec(
        ("words", vocab_size, hidden_size, length), embedding, lambda count, split: (words(count, split),)
    )

    def layer(split: Split) -> nn.Module:
        t, mlp = split.tensor, None
        if experts:
            mlp = RoutedMlp(hidden_size, intermediate_size, experts, per_token, split.experts, _exchange(split.experts))
            mlp.experts = ShardedApart(mlp.experts)
        module = written.Layer(hidden_size, heads // t, kv_heads // t, intermediate_size // t, size, mlp)
        if split.context > 1:
            module.attention.attend = partial(_around, split.context)
        if t > 1:
            module.attention, module.mlp = _Shared(module.attention, t), _Shared(module.mlp, t)
        return module

    middle = BlockSpec(
        ("layer", hidden_size, heads, kv_heads, intermediate_size, length, experts, per_token, size),
        layer,
        lambda count, split: (rows(count, split), angles(split)),
        (hidden_size, hidden_size),
    )

    def head(split: Split) -> nn.Module:
        t = split.tensor
        module = written.Head(hidden_size, vocab_size // t, _add_up if t > 1 else None)
        if t > 1:
            module.output = _Gathered(module.output, t)
        return module

    last = BlockSpec(
        ("head", vocab_size, hidden_size, length),
        head,
        lambda count, split: (rows(count, split), words(count, split)),
        norms=(hidden_size,),
    )
    divided = (
        ("heads", heads),
        ("kv_heads", kv_heads),
        ("intermediate_size", intermediate_size),
        ("vocab_size", vocab_size),
        ("tokens", length),
    )
    blocks = (first, *[middle] * layers, last)
    sizes |= {"vocab_size": vocab_size, "length": length, "head_size": size}
    sizes |= {"experts": experts, "per_token": per_token} if experts else {}
    return Model(
        name or f"Llama-like, {layers} x {hidden_size}", blocks, length, divided, tuple(sizes.items()), experts
    )


def mpt(
    layers: int = 32,
    hidden_size: int = 4096,
    heads: int = 32,
    vocab_size: int = 50368,
    length: int = 2048,
    name: str = "",
) -> Model:
    """MPT by its sizes: a feed-forward network of two products, 4 times as wide. Problem for sizes that make none.

    Words and head are those of `llama`: MPT's are one weight, and are counted twice here.
    """
    like = llama(layers, hidden_size, heads, None, 4 * hidden_size, vocab_size, length, name)
    size = hidden_size // heads

    def layer(split: Split) -> nn.Module:
        t = split.tensor
        module = MptLayer(hidden_size, heads // t, 4 * hidden_size // t, size)
        if t > 1:
            module.attention, module.mlp = _Shared(module.attention, t), _Shared(module.mlp, t)
        return module

    key = ("mpt layer", hidden_size, heads, length)
    middle = BlockSpec(key, layer, like.blocks[1].inputs, (hidden_size, hidden_size))
    blocks = (like.blocks[0], *[middle] * layers, like.blocks[-1])
    return replace(like, name=name or f"MPT-like, {layers} x {hidden_size}", blocks=blocks, sizes=None)


def nanotron(
    layers: int = 32,
    hidden_size: int = 4096,
    heads: int = 32,
    intermediate_size: int = 14336,
    vocab_size: int = 131072,
    length: int = 4096,
    name: str = "",
) -> Model:
    """Nanotron's Llama by its sizes: fused norms, merged products, collectives beside them. Problem as of `llama`."""
    like = llama(layers, hidden_size, heads, None, intermediate_size, vocab_size, length, name)
    size = hidden_size // heads

    def layer(split: Split) -> nn.Module:
        t = split.tensor
        return NanotronLayer(hidden_size, heads // t, intermediate_size // t, size, t)

    def head(split: Split) -> nn.Module:
        t = split.tensor
        return NanotronHead(hidden_size, vocab_size // t, t, _add_up if t > 1 else lambda x, _: x)

    middle = BlockSpec(("nanotron layer", *like.blocks[1].key), layer, like.blocks[1].inputs)
    last = BlockSpec(("nanotron head", *like.blocks[-1].key), head, like.blocks[-1].inputs)
    blocks = (like.blocks[0], *[middle] * layers, last)
    return replace(like, name=name or f"Nanotron's Llama, {layers} x {hidden_size}", blocks=blocks, sizes=None)


def _around(context: int, query, key, value) -> torch.Tensor:
    return RingAttention.apply(query, key, value, context)


def _exchange(ranks: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return _AllToAll.apply if ranks > 1 else lambda x: x


class _AllToAll(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        record_collective("all_to_all", x.numel() * x.element_size(), "experts")
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx, *gradients):
        return _AllToAll.forward(ctx, *gradients)


def _add_up(tensor: torch.Tensor, _) -> torch.Tensor:
    record_collective("all_reduce", tensor.numel() * tensor.element_size())
    return tensor


class _Gather(torch.autograd.Function):
    """Each GPU has some tokens, and gets all of them; backward the sums go to where the tokens are."""

    @staticmethod
    def forward(ctx, x, tensor):
        ctx.tensor = tensor
        return _all_gather(x, tensor)

    @staticmethod
    def backward(ctx, gradient):
        return _reduce_scatter(gradient, ctx.tensor), None


class _Scatter(torch.autograd.Function):
    """The sums of all GPUs, to where the tokens are; backward all get them."""

    @staticmethod
    def forward(ctx, x, tensor):
        ctx.tensor = tensor
        return _reduce_scatter(x, tensor)

    @staticmethod
    def backward(ctx, gradient):
        return _all_gather(gradient, ctx.tensor), None


def _all_gather(x: torch.Tensor, tensor: int) -> torch.Tensor:
    rows, tokens, width = x.shape
    whole = x.new_empty(tensor * rows, tokens, width)
    record_collective("all_gather", whole.numel() * whole.element_size())
    # It comes rank by rank, and is put in the order of tokens where there are several rows.
    return whole.view(1, -1, width) if rows == 1 else torch.cat(whole.chunk(tensor), 1)


def _reduce_scatter(x: torch.Tensor, tensor: int) -> torch.Tensor:
    parts = torch.cat(x.chunk(tensor, 1))
    record_collective("reduce_scatter", parts.numel() * parts.element_size())
    return parts.new_empty(x.shape[0], x.shape[1] // tensor, x.shape[2])


class _Gathered(nn.Module):
    """A module that gets all tokens."""

    def __init__(self, module: nn.Module, tensor: int):
        super().__init__()
        self.module, self.tensor = module, tensor

    def forward(self, x, *more):
        return self.module(_Gather.apply(x, self.tensor), *more)


class _Shared(_Gathered):
    """A module that gets all tokens, and whose results are added up and go to where the tokens are."""

    def forward(self, x, *more):
        return _Scatter.apply(super().forward(x, *more), self.tensor)


class _Words(nn.Module):
    """An embedding of some of the words: of the others zeros, until all are added up. As DTensor has it."""

    def __init__(self, words: int, width: int, tensor: int):
        super().__init__()
        self.words, self.embedding, self.tensor = words, nn.Embedding(words, width), tensor

    def forward(self, tokens):
        elsewhere = (tokens < 0) | (tokens >= self.words)
        own = (tokens.clone() - 0).masked_fill_(elsewhere, 0)
        found = self.embedding(own)
        return _Scatter.apply(_Masked.apply(found, elsewhere), self.tensor)


class _Masked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask):
        ctx.mark_dirty(x)
        ctx.save_for_backward(mask)
        return x.masked_fill_(mask[..., None], 0)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


# --- any module ---------------------------------------------------------------------------------------------------


def of_module(module: nn.Module, row: torch.Tensor, name: str = "") -> Model:
    """A model of any module, and `row`: one row of its batch, on any device. Parts of an nn.Sequential are its blocks.

    What it is trained for is taken to be the mean of its output. Problem, in one line, for what it cannot run.
    """
    if not isinstance(module, nn.Module):
        raise Problem(f"a model is an nn.Module or sizes of a Llama-like one, and this is a {type(module).__name__}")
    parts = list(module.children()) if isinstance(module, nn.Sequential) else [module]
    if not any(True for _ in module.parameters()):
        raise Problem(f"this {type(module).__name__} has no weights: there is nothing to train")
    parts = [each.to("meta") for each in parts]
    shape, blocks = _as_input(row), []
    for number, part in enumerate(parts):
        given = shape
        try:
            with torch.no_grad():
                out = part.to(torch.bfloat16)(torch.empty_like(given, device="meta"))
        except Exception as error:
            raise Problem(f"block {number}, {type(part).__name__}, cannot take {tuple(given.shape)}: {error}") from None
        sizes = tuple(tuple(each.shape) for each in part.parameters())
        is_last = number == len(parts) - 1
        key = (repr(part), sizes, tuple(given.shape), given.dtype, is_last)
        blocks.append(BlockSpec(key, _maker(part, is_last), _rows(given)))
        shape = out.detach()
    return Model(name or type(module).__name__, tuple(blocks), row.shape[0] if row.dim() else 1)


def _maker(part: nn.Module, is_last: bool) -> Callable[[Split], nn.Module]:
    import copy

    return lambda split: _Mean(copy.deepcopy(part)) if is_last else copy.deepcopy(part)


def _rows(row: torch.Tensor) -> Callable[[int, Split], Inputs]:
    return lambda count, split: (torch.empty(count, *row.shape[1:], dtype=row.dtype, device="meta"),)


def _as_input(row: torch.Tensor) -> torch.Tensor:
    dtype = torch.bfloat16 if row.is_floating_point() else row.dtype
    return torch.empty(1, *row.shape, dtype=dtype, device="meta")


class _Mean(nn.Module):
    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x).float().mean()
