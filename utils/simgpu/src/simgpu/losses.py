"""F.ctc_loss with lengths in tensors: PyTorch reads them on the host first, but not for a device that is a class."""

from __future__ import annotations

from functools import cache

import torch

aten = torch.ops.aten
_ATEN = torch.library.Library("aten", "IMPL")


def _with_lengths_on_the_host(log_probs, targets, input_lengths, target_lengths, *rest):
    lengths = (lengths.reshape(-1).tolist() for lengths in (input_lengths, target_lengths))
    return aten.ctc_loss.IntList(log_probs, targets, *lengths, *rest)


@cache
def register_losses() -> None:
    """Let the lengths of `F.ctc_loss` be on the CPU, or on the GPU of what it is given."""
    _ATEN.impl("ctc_loss.Tensor", _with_lengths_on_the_host, "AutogradPrivateUse1")
