"""A Llama of transformers over several devices by its shapes, and a cache of one's own in it: lesson 14 uses both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from accelerate import dispatch_model
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.cache_utils import Cache, CacheLayerMixin

Update = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def placed(config: LlamaConfig, gpus: Sequence[torch.device], dtype: torch.dtype = torch.bfloat16) -> Any:
    """A Llama with as many layers on each GPU, dispatched by Accelerate. Its weights are allocated and not filled."""
    with torch.device("meta"):
        model: Any = LlamaForCausalLM(config)
    model.to(dtype).eval()
    first, last, layers = gpus[0], gpus[-1], config.num_hidden_layers
    places: dict[str, Any] = {
        "model.embed_tokens": first,
        "model.rotary_emb": first,
        "model.norm": last,
        "lm_head": last,
    }
    places |= {f"model.layers.{i}": gpus[i * len(gpus) // layers] for i in range(layers)}
    for name, gpu in places.items():
        model.get_submodule(name).to_empty(device=gpu)
    return dispatch_model(model, places)


def as_cache(updates: Sequence[Update]) -> Cache:
    """transformers' cache of a model whose layer `i` calls `updates[i](k, v)` with its new keys and values."""
    return Cache(layers=[_Layer(update) for update in updates])


class _Layer(CacheLayerMixin):
    def __init__(self, update: Update):
        super().__init__()
        self.call, self.length = update, 0

    def lazy_initialization(self, key_states, value_states):
        pass  # the learner's function has allocated what it needs

    def update(self, key_states, value_states, *args, **kwargs):
        self.length += key_states.shape[-2]
        return self.call(key_states, value_states)

    def get_mask_sizes(self, query_length):
        return self.length + query_length, 0

    def get_seq_length(self):
        return self.length

    def get_max_length(self):
        return -1

    get_max_cache_shape = get_max_length  # its older name
