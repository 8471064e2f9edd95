"""Lab 14's models: a GPT split by blocks, which decodes without a cache, and two stages that keep their own state."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import nn

from utils.models.gpt import GPT


class SplitGPT(nn.Module):
    """A GPT whose block `i` is on `devices[i]`: the embedding with the first block, norm and head with the last one.

    `cos[i]` and `sin[i]` are the rotary tables on the device of block `i`, a row for each position.
    """

    def __init__(self, model: GPT, devices: Sequence[torch.device]):
        super().__init__()
        self.devices = list(devices)
        self.head = copy.deepcopy(model.head).to(devices[-1])
        self.norm = model.norm.to(devices[-1])
        self.embed = model.embed.to(devices[0])
        self.blocks = nn.ModuleList(block.to(device) for block, device in zip(model.blocks, devices, strict=True))
        tables = {device: (model.cos.to(device), model.sin.to(device)) for device in devices}
        self.cos, self.sin = zip(*(tables[device] for device in devices), strict=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        x = self.embed(tokens.to(self.devices[0]))
        for block, device, cos, sin in zip(self.blocks, self.devices, self.cos, self.sin, strict=True):
            x = block(x.to(device), cos[:length], sin[:length])
        return self.head(self.norm(x))


class TwoStages(nn.Module):
    """A small language model in two stages. Instead of attention, each stage adds up the last four tokens.

    So its cache holds the last three tokens of each sequence, in each stage.
    """

    def __init__(self, vocab_size: int, inner_sizes: Sequence[int], devices: Sequence[torch.device]):
        super().__init__()
        hidden_size = 8
        self.device0, self.device1 = devices
        self.embed = nn.Embedding(vocab_size, hidden_size).to(self.device0)
        self.mlp0, self.mlp1 = (
            nn.Sequential(
                nn.LayerNorm(hidden_size),
                nn.Linear(hidden_size, inner),
                nn.Linear(inner, hidden_size),
                nn.LayerNorm(hidden_size),
            ).to(device)
            for inner, device in zip(inner_sizes, devices, strict=True)
        )
        self.head = nn.Linear(hidden_size, vocab_size).to(self.device1)

    def new_cache(self) -> dict[int, torch.Tensor]:
        """A cache for one group of requests: empty, and filled by the stages."""
        return {}

    def stage0(self, tokens: torch.Tensor, cache: dict) -> torch.Tensor:
        """The hidden states of the group's next tokens: (sequences, tokens) and the result are on device0."""
        x = self.embed(tokens)
        return x + self.mlp0(self._last_four(x, cache, 0))

    def stage1(self, hidden: torch.Tensor, cache: dict) -> torch.Tensor:
        """The logits of each sequence's last token, (sequences, vocabulary): `hidden` and the result are on device1."""
        x = hidden + self.mlp1(self._last_four(hidden, cache, 1))
        return self.head(x[:, -1])

    def _last_four(self, x: torch.Tensor, cache: dict, stage: int) -> torch.Tensor:
        earlier = cache[stage] if stage in cache else x.new_zeros(x.shape[0], 3, x.shape[2])
        tokens = torch.cat([earlier, x], 1)
        cache[stage] = tokens[:, -3:]
        return tokens.unfold(1, 4, 1).sum(-1)
