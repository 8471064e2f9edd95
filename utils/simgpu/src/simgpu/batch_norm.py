"""What torch.nn.SyncBatchNorm calls on a GPU: PyTorch has kernels of it for CUDA only.

Here they are from their definitions, for values of shape (batch, channels, ...). A rank has the mean and the inverse
standard deviation of its own rows; those of all ranks are weighted by their counts (Chan's parallel variance).
"""

from __future__ import annotations

import torch

aten = torch.ops.aten


def _channels(value: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    """One number a channel, in a shape that meets all elements of its channel."""
    return value.view(1, -1, *(1,) * (of.dim() - 2))


def _rest(value: torch.Tensor) -> list[int]:
    """All dimensions but that of the channels."""
    return [0, *range(2, value.dim())]


def stats(value, eps):
    variance, mean = torch.var_mean(value, _rest(value), correction=0)
    return mean, (variance + eps).rsqrt()


def gather_stats(value, means, inverses, running_mean, running_var, momentum, eps, counts):
    weights = counts.view(-1, 1).to(means.dtype)
    total = weights.sum()
    mean = (means * weights).sum(0) / total
    squares = inverses.pow(-2) - eps + (means - mean).square()
    variance = (squares * weights).sum(0) / total
    if running_mean is not None:
        running_mean.lerp_(mean, momentum)
        running_var.lerp_(variance * (total / (total - 1)), momentum)
    return mean, (variance + eps).rsqrt()


def normalise(value, weight, bias, mean, inverse, eps):
    out = (value - _channels(mean, value)) * _channels(inverse, value)
    if weight is not None:
        out = out * _channels(weight, value)
    return out if bias is None else out + _channels(bias, value)


def backward_reduce(grad, value, mean, inverse, weight, for_input, for_weight, for_bias):
    total = grad.sum(_rest(grad))
    with_value = (grad * (value - _channels(mean, value))).sum(_rest(grad))
    nothing = grad.new_empty(0)
    return total, with_value, with_value * inverse if for_weight else nothing, total if for_bias else nothing


def backward_elements(grad, value, mean, inverse, weight, total, with_value, counts):
    count = counts.sum()
    scale = inverse if weight is None else inverse * weight
    centred = value - _channels(mean, value)
    slope = _channels(with_value / count * inverse.square(), value)
    return (grad - _channels(total / count, value) - centred * slope) * _channels(scale, value)


SUBSTITUTES = {
    aten.batch_norm_stats.default: stats,
    aten.batch_norm_gather_stats_with_counts.default: gather_stats,
    aten.batch_norm_elemt.default: normalise,
    aten.batch_norm_backward_reduce.default: backward_reduce,
    aten.batch_norm_backward_elemt.default: backward_elements,
}
