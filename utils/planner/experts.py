"""A feed-forward network of several experts, some of which lie on each GPU, for traces and for simulation.

Tokens choose `per_token` experts by a router, go to the GPUs that have them and come back (dropless, as Mixtral,
arXiv 2401.04088, and torchtitan's MoE have it). All experts get as many tokens here: so a skew is not estimated.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn.functional import silu

Exchange = Callable[[torch.Tensor], torch.Tensor]


class ExpertWeights(nn.Module):
    """The experts of one GPU: three products each, of as many tokens, (experts, tokens, width)."""

    def __init__(self, count: int, width: int, hidden: int):
        super().__init__()
        self.gate, self.up = (nn.Parameter(torch.empty(count, width, hidden)) for _ in range(2))
        self.down = nn.Parameter(torch.empty(count, hidden, width))

    def forward(self, x):
        return torch.bmm(silu(torch.bmm(x, self.gate)) * torch.bmm(x, self.up), self.down)


class RoutedMlp(nn.Module):
    """`experts` in all, of which each of `ranks` GPUs has as many; `exchange` is their all-to-all of equal parts."""

    def __init__(self, width: int, hidden: int, experts: int, per_token: int, ranks: int, exchange: Exchange):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.here = experts // ranks
        self.experts: nn.Module = ExpertWeights(self.here, width, hidden)
        self.per_token, self.ranks, self.exchange = per_token, ranks, exchange

    def forward(self, x):
        tokens = x.flatten(0, 1)
        scores, chosen = self.router(tokens).float().softmax(-1).topk(self.per_token, -1)
        scores = scores / scores.sum(-1, keepdim=True)
        order = chosen.flatten().argsort()
        of_token = order // self.per_token
        arrived = self.exchange(tokens[of_token])
        a_share = (self.ranks, self.here, -1, x.shape[-1])  # from each GPU, for each expert
        by_expert = arrived.view(a_share).transpose(0, 1).flatten(1, 2)
        computed = self.experts(by_expert)
        back = self.exchange(computed.unflatten(1, (self.ranks, -1)).transpose(0, 1).reshape(arrived.shape))
        weighted = back * scores.flatten()[order, None].to(back.dtype)
        return torch.zeros_like(tokens).index_add(0, of_token, weighted).view(x.shape)
