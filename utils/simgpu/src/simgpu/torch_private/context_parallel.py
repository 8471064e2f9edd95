"""Private names of PyTorch's context parallel, which sends its own operators of attention round a ring."""

from __future__ import annotations

import sys
from typing import Any


def _module() -> Any:
    """The module that has it; None before a program has imported it."""
    return sys.modules.get("torch.distributed.tensor.experimental._context_parallel._attention")


def in_context_parallel() -> bool:
    """Whether it is on: DTensor hands its operators of attention to the ring."""
    module = _module()
    return module is not None and module.DTensor._op_dispatcher._custom_op_handlers is not module.existing_custom_ops


def attention_is_replaced() -> bool:
    """Whether it is on as the context manager, which puts its own in place of functional's attention.

    The other form, a plan for modules, leaves all other calls of attention alone.
    """
    return in_context_parallel() and _module()._dispatch_mode is _module()._DispatchMode.MONKEY_PATCH


def ring_is_balanced() -> bool:
    """Whether each rank has a part of the sequence's head and one of its tail."""
    return _module()._cp_options.enable_load_balance
