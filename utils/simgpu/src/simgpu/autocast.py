"""`torch.autocast("simgpu")`: which operators compute in the lower precision, as on CUDA.

PyTorch leaves the casts of its free device slot to the backend. The three lists are those of PyTorch's documentation
("Automatic Mixed Precision", CUDA op-specific behavior), with PyTorch's operator names. One difference: CUDA casts
a weight once for an autocast region, here it is cast at each use.
"""

from __future__ import annotations

import torch

from . import torch_private
from .hardware import DEVICE_TYPE

# Matrix products and convolutions: in the autocast dtype.
LOWER = """
    addbmm addmm addmv addr baddbmm bmm chain_matmul conv1d conv1d.padding conv2d conv2d.padding conv3d conv3d.padding
    conv_transpose1d conv_transpose2d.input conv_transpose3d.input convolution _convolution einsum gru_cell
    linalg_multi_dot linear lstm_cell matmul mm mv prelu rnn_relu_cell rnn_tanh_cell scaled_dot_product_attention
"""
# What loses too much in a lower precision: in float32.
FLOAT32 = """
    acos asin binary_cross_entropy_with_logits cdist cosh cosine_embedding_loss cosine_similarity cross_entropy_loss
    cumprod cumsum dist erfinv exp expm1 group_norm hinge_embedding_loss kl_div l1_loss layer_norm log log10 log1p log2
    log_softmax.int margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss nll_loss_nd
    norm.Scalar norm.ScalarOpt_dim pdist poisson_nll_loss pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor prod
    prod.dim_int reciprocal renorm rsqrt sinh smooth_l1_loss huber_loss soft_margin_loss softmax.int softplus sum
    sum.dim_IntList tan triplet_margin_loss
"""
# Several operands of one precision: in the widest among them.
WIDEST = "addcdiv addcmul atan2 bilinear cat cross dot grid_sampler index_put scatter_add stack tensordot"

_libraries: list[torch.library.Library] = []


def register_autocast() -> None:
    """Tell PyTorch what each operator does inside `torch.autocast("simgpu")`."""
    everything = torch.library.Library("_", "IMPL")
    everything.fallback(torch.library.fallthrough_kernel, torch_private.AUTOCAST_KEY)
    some = torch.library.Library("aten", "IMPL")
    for names, choose in ((LOWER, _lower), (FLOAT32, _float32), (WIDEST, _widest)):
        for name in names.split():
            packet, _, overload = name.partition(".")
            func = getattr(getattr(torch.ops.aten, packet), overload or "default")
            some.impl(name, _casting(func, choose), torch_private.AUTOCAST_KEY)
    _libraries.extend([everything, some])


def _casting(func, choose):
    def call(*args, **kwargs):
        tensors = [t for t in _tensors((*args, *kwargs.values())) if t.is_floating_point()]
        dtype = choose(tensors)
        with torch_private.without_autocast():
            return func(*(_cast(arg, dtype) for arg in args), **{k: _cast(v, dtype) for k, v in kwargs.items()})

    return call


def _lower(tensors):
    return torch.get_autocast_dtype(DEVICE_TYPE)


def _float32(tensors):
    return torch.float32


def _widest(tensors):
    return max((t.dtype for t in tensors), key=lambda dtype: torch.finfo(dtype).bits, default=None)


def _tensors(args):
    for arg in args:
        if isinstance(arg, torch.Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            yield from _tensors(arg)


def _cast(arg, dtype):
    if isinstance(arg, torch.Tensor):
        # float64 is left alone, and so is what is not on the device, as PyTorch does.
        floating = arg.is_floating_point() and arg.dtype is not torch.float64 and arg.device.type == DEVICE_TYPE
        return arg.to(dtype) if floating and dtype is not None and arg.dtype is not dtype else arg
    if isinstance(arg, (list, tuple)):
        return type(arg)(_cast(a, dtype) for a in arg)
    return arg
