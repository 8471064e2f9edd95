"""How long a kernel takes: what it has to compute, what it has to move, and what stands in the way of either.

    seconds = ramp + the longer of (computing, moving) + OVERLAP x the shorter

    computing = operations / (peak for the precision x the share of it that large kernels reach x filled)
    moving    = bytes that pass through memory / (datasheet bandwidth x the share of it that streams reach)

It is Williams, Waterman and Patterson's roofline (Communications of the ACM 52(4), 2009) with what was measured on
real GPUs added to it. Peaks and shares belong to the GPU (`profiles`). The constants here hold for all GPUs: each
says what it stands for and which measurements it was fitted on. They are the rows marked `fitted` in
benchmarks/data; docs/times.md shows how near the times come, on those rows and on others.

An operator may be several kernels (the backward pass of a convolution is two and a sum). Operators that are not
named here cost what they read and write, plus the FLOPs that PyTorch's own registry knows of
(torch.utils.flop_counter).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import ceil, prod
from typing import NamedTuple

import torch

from . import (
    attention,
    attention_blocks,
    torch_private,
)
from .profiles import GpuProfile

aten = torch.ops.aten

# Products are computed in tiles of outputs, at least this many rows and columns: what sticks out is computed for
# nothing, and with fewer tiles than multiprocessors the rest of them is idle. 32 is the smallest that libraries
# commonly choose; 64 and 128 are worse on every set of measurements.
TILE = 32
# Of computing and moving the shorter one hides behind the longer, but not wholly: the first operands come before
# anything is computed, the last results leave after. Fitted on products (NeuSight, DeepBench).
OVERLAP = 0.5
# What a kernel takes before it is under way, in units of `GpuProfile.shortest`, the same for a kernel that only
# streams: a product fills its pipeline of tiles, a convolution also works out its addresses. Fitted on products and
# convolutions below 100 microseconds (DeepBench).
PRODUCT_RAMP = 3
CONVOLUTION_RAMP = 6
# The share of a product's speed at which a convolution runs, its operands being gathered and not read in rows.
# Fitted on convolutions (DeepBench, NeuSight).
CONVOLUTION = 0.85
# Winograd's algorithm (Lavin and Gray, CVPR 2016) multiplies 4 times less often in fp32 convolutions of 3 x 3 and
# stride 1, which it computes in tiles of 4 x 4 outputs; after transforming operands and results 2 times remain. What
# of a tile sticks out is for nothing. Fitted on DeepBench and NeuSight; with few channels cuDNN does without.
WINOGRAD = 2.0
WINOGRAD_TILE = 4
WINOGRAD_CHANNELS = 16
# The gradient of the input where the stride is above 1 meets the holes between outputs, and the gradient of the
# weights is summed over all images in parts. Both fitted on DeepBench.
STRIDED_INPUT_GRADIENT = 1.5
WEIGHT_GRADIENT = 1.25
# Tensor cores take images in half precision whose channels are at least this many (NVIDIA's Convolutional Layers User's
# Guide asks for multiples of 8, and of 4 for images of three). With fewer, unless channels come last, the convolution
# runs without them, and padded. So it is in DeepBench (cuDNN 7), on which nothing but the rule itself was fitted.
FEW_CHANNELS = 8
# What a time step of cuDNN's recurrent layers takes beside computing and moving: a product that waits for the step
# before, the sum of its parts, and the gates. Fitted on LSTM layers of a V100 (DeepBench).
STEP_RAMP = 14

# How often more than once an operator passes over its largest tensor. A norm reads it for mean and variance and
# again to normalise. Layer norm and softmax fitted on NeuSight's; batch norm
# has the passes of its definition, which Kineto's bear out.
MORE_PASSES = {
    aten.native_layer_norm: 1,
    aten.native_layer_norm_backward: 3,
    aten.native_group_norm: 1,
    aten.native_group_norm_backward: 3,
    aten.native_batch_norm_backward: 2,
    aten._softmax_backward_data: 3,  # first the product of gradient and result, then the rest
}
SOFTMAX = {aten._softmax, aten._log_softmax, aten._safe_softmax}
# Rows of a softmax up to the first length stay in registers, up to the second for the most part in cache.
SOFTMAX_ROWS = ((1024, 0.0), (4096, 0.5), (float("inf"), 2.0))

# Operators that look up or write a few rows of a large tensor: the argument that is not read whole.
TOUCHES_ROWS = {
    aten.embedding: 0,
    aten.index: 0,
    aten.index_select: 1,
    aten.gather: 0,
    aten.index_put_: 0,
    aten.index_put: 0,
    aten.embedding_dense_backward: 0,
}
# Operators that write their first argument, or a tensor like it, and read nothing.
ONLY_WRITES = {
    aten.fill_, aten.zero_, aten.normal_, aten.uniform_, aten.ones_like, aten.zeros_like, aten.full_like,
    aten.rand_like, aten.randn_like, aten.new_zeros, aten.new_ones, aten.new_full,
}  # fmt: skip


class Kernel(NamedTuple):
    """What one kernel has to do."""

    traffic: float  # bytes that pass through memory
    operations: float = 0  # floating-point operations, with those for nothing
    tiles: float = float("inf")  # of outputs, one for each multiprocessor at a time
    dtype: torch.dtype = torch.float32
    tf32: bool = False  # whether PyTorch's switches let it round float32 for tensor cores
    share: float = 1.0  # of the speed of a product
    ramp: float = 1.0  # times `GpuProfile.shortest`
    winograd: float = 1.0  # how many times fewer operations it needs without tensor cores
    relaid: float = 0.0  # bytes that pass through memory before and after it on tensor cores
    times: int = 1  # one after another
    attention: int | None = None  # 0 forward, 1 backward: its share of a product's speed is the GPU's


class Work(NamedTuple):
    """What one call of an operator has to do. `flops` and `bytes` count everything once, as the log shows it."""

    flops: int
    bytes: int
    kernels: tuple[Kernel, ...]


def seconds_for(gpu: GpuProfile, work: Work) -> float:
    """What an operator of so much work takes on a GPU."""
    return sum(kernel.times * _seconds(gpu, kernel) for kernel in work.kernels)


def streaming(size: float) -> Work:
    """The work of a kernel that only reads and writes: so many bytes together."""
    return Work(0, int(size), (Kernel(size),))


def _seconds(gpu: GpuProfile, kernel: Kernel) -> float:
    moving = kernel.traffic / (gpu.bandwidth * gpu.streams)
    if not kernel.operations:
        return gpu.shortest * kernel.ramp + moving
    filled = min(1.0, kernel.tiles / gpu.multiprocessors)
    rate, on_tensor_cores = gpu.rate(kernel.dtype, kernel.tf32)
    saved = 1.0 if on_tensor_cores else kernel.winograd
    share = kernel.share if kernel.attention is None else gpu.attention[kernel.attention]
    computing = kernel.operations / (rate * share * filled * saved)
    before_and_after = kernel.relaid / (gpu.bandwidth * gpu.streams) if on_tensor_cores else 0.0
    return gpu.shortest * kernel.ramp + max(computing, moving) + OVERLAP * min(computing, moving) + before_and_after


def work_of(packet, args, kwargs, out) -> Work:
    """The work of one call of an operator (a packet, such as `aten.mm`).

    The tensors among its arguments and results need only have the right shapes.
    """
    results = list(tensors_in(out if isinstance(out, (list, tuple)) else [out]))
    moved = _moved(packet, args, kwargs, results)
    # PyTorch's formula counts what is causal whole.
    formula = None if packet in ATTENTION_BLOCKS else _flop_formulas().get(packet)
    flops = int(formula(*args, **kwargs, out_val=out)) if formula else 0
    if packet.__name__.startswith(OF_LISTS):
        moved += _updated(packet, args)
        return Work(0, moved, (_of_lists(args, results, moved),))
    if (kernels_of := KERNELS.get(packet)) is not None:
        kernels = tuple(kernels_of(args, results, moved))
        return Work(flops or int(sum(kernel.operations for kernel in kernels)), moved, kernels)
    more = _more_passes(packet, args) * max((size_of(t) for t in tensors_in(args)), default=0)
    if not flops:
        return Work(0, moved, (Kernel(moved + more),))
    tiles = max(sum(t.numel() for t in results) / TILE**2, 1)
    return Work(flops, moved, (Kernel(moved, flops, tiles, _dtype(results), ramp=PRODUCT_RAMP),))


def size_of(tensor) -> int:
    """Bytes of a tensor's elements."""
    return tensor.numel() * tensor.element_size()


def tensors_in(values) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from tensors_in(value)


def _moved(packet, args, kwargs, results) -> int:
    """Bytes of what an operator reads and writes, each once. What is written in place is read and written.

    What stands in `out=` is written only, and is among the results.
    """
    if packet in ONLY_WRITES:
        return sum(size_of(t) for t in results)
    skipped = args[TOUCHES_ROWS[packet]] if packet in TOUCHES_ROWS and args else None
    only_written = {id(tensor) for tensor in results}
    read = [t for t in tensors_in(args) if t is not skipped]
    read += [t for t in tensors_in(kwargs.values()) if id(t) not in only_written]
    return sum(map(size_of, read)) + sum(map(size_of, results))


def _dtype(tensors) -> torch.dtype:
    return next((t.dtype for t in tensors if t.is_floating_point()), torch.float32)


@cache
def _flop_formulas() -> dict:
    from torch.utils.flop_counter import flop_registry  # slow to import, and not needed before the first kernel

    return flop_registry


def _more_passes(packet, args) -> float:
    if packet in SOFTMAX:
        row = args[0].shape[args[1]] if args[0].dim() else 1
        return next(more for longest, more in SOFTMAX_ROWS if row <= longest)
    if packet is aten.native_batch_norm:
        return 1 if args[5] else 0  # in evaluation mean and variance are known
    return MORE_PASSES.get(packet, 0)


# --- lists of tensors -------------------------------------------------------------------------------------------

# By these optimizers, gradient clipping and FSDP take all weights at once. On CUDA one kernel does so, of at most so
# many blocks, each for a chunk of so many numbers of one tensor, and for as many tensors as the addresses of one, two,
# ... lists leave room for in 4 KB of arguments (aten/src/ATen/native/cuda/MultiTensorApply.cuh). Then comes another.
OF_LISTS = ("_foreach_", "_fused_adam", "_fused_sgd", "_fused_adagrad", "_amp_foreach_")
CHUNK, BLOCKS = 65536, 320
MOST_TENSORS = (110, 64, 48, 36, 30)
# What they write and do not read is counted among their arguments.
ONLY_WRITE_LISTS = {aten._foreach_zero_, aten._foreach_copy_}


def _lists(args) -> Sequence[Sequence[torch.Tensor]]:
    """The lists of tensors among arguments that are as large as the first: not those of steps."""
    lists = [arg for arg in args if isinstance(arg, (list, tuple)) and arg and isinstance(arg[0], torch.Tensor)]
    return [each for each in lists if each[0].shape == lists[0][0].shape]


def _updated(packet, args) -> int:
    """Bytes of what such an operator writes in place: it returns nothing, and reads them too."""
    if not packet.__name__.endswith("_") or packet in ONLY_WRITE_LISTS:
        return 0
    lists = _lists(args)
    written = [lists[0], *lists[2:]] if packet.__name__.startswith("_fused_") else lists[:1]  # all but gradients
    return sum(size_of(tensor) for each in written for tensor in each)


def _of_lists(args, results, moved) -> Kernel:
    lists = _lists([*args, results])
    count = _launches([tensor.numel() for tensor in lists[0]], MOST_TENSORS[min(len(lists), len(MOST_TENSORS)) - 1])
    return Kernel(moved / count, times=count)


def _launches(sizes: Sequence[int], most: int) -> int:
    """How many kernels CUDA starts for tensors of so many numbers each, and at most so many tensors a kernel."""
    launches = blocks = tensors = 0
    for size in filter(None, sizes):
        tensors += 1
        full, blocks = divmod(blocks + ceil(size / CHUNK), BLOCKS)
        if full:  # what is left of this tensor begins the next kernel
            launches, tensors = launches + full, min(blocks, 1)
        if tensors == most:
            launches, blocks, tensors = launches + 1, 0, 0
    return max(1, launches + bool(blocks))


# --- products ---------------------------------------------------------------------------------------------------


def _tiles(rows: int, columns: int) -> int:
    return ceil(rows / TILE) * ceil(columns / TILE)


def _product(a, b, moved: float) -> Kernel:
    """`a` times `b`, both matrices or both batches of them."""
    *batch, rows, inner = a.shape
    tiles = prod(batch) * _tiles(rows, b.shape[-1])
    tf32 = torch_private.rounds_float32("matmul")
    return Kernel(moved, 2 * tiles * TILE**2 * inner, tiles, a.dtype, tf32, ramp=PRODUCT_RAMP)


# --- convolutions -----------------------------------------------------------------------------------------------


class _Convolution(NamedTuple):
    """A convolution as the product that it is: of positions x columns with columns x channels."""

    x: torch.Tensor
    weight: torch.Tensor
    y: torch.Tensor
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def kernel(self, rows: int, columns: int, *, times=1.0, tiles=None) -> Kernel:
        """The kernel of one pass, whose outputs are so many rows and columns in each group."""
        operations = 2 * self.y.numel() * prod(self.weight.shape[1:])
        if not operations:  # no pictures, or no channels
            return Kernel(size_of(self.x) + size_of(self.weight) + size_of(self.y))
        each = _tiles(rows, columns)
        # Depthwise convolutions have a kernel of their own, without tiles.
        padded = each * TILE**2 / (rows * columns) if self.weight.shape[1] > 1 else 1.0
        few = self._has_few_channels()
        channels = self.weight.shape[1]
        padded *= (4 if channels in (3, 4) else FEW_CHANNELS) / channels if few else 1.0
        return Kernel(
            traffic=size_of(self.x) + size_of(self.weight) + size_of(self.y),
            operations=operations * padded * times,
            tiles=self.groups * each if tiles is None else tiles,
            dtype=torch.float32 if few else self.x.dtype,
            tf32=torch_private.rounds_float32("conv") and not few,
            share=CONVOLUTION,
            ramp=CONVOLUTION_RAMP,
            winograd=self._saved_by_winograd(),
            relaid=self._relaid(),
        )

    def _has_few_channels(self) -> bool:
        """Whether tensor cores are not for it, in half precision and with channels first."""
        half = self.x.dtype in (torch.float16, torch.bfloat16)
        return half and self.groups == 1 and self.weight.shape[1] < FEW_CHANNELS and self.x.is_contiguous()

    def _saved_by_winograd(self) -> float:
        """How many times fewer operations Winograd's algorithm needs, 1 where it is not for this convolution."""
        plain = tuple(self.weight.shape[2:]) == (3, 3) and set(self.stride) | set(self.dilation) == {1}
        if not plain or self.groups > 1 or min(self.weight.shape[:2]) < WINOGRAD_CHANNELS:
            return 1.0
        sides = self.y.shape[2:]
        inside = prod(sides) / prod(ceil(side / WINOGRAD_TILE) * WINOGRAD_TILE for side in sides)
        return max(1.0, WINOGRAD * inside)

    def _relaid(self) -> float:
        """Bytes moved to bring images and results into the layout of tensor cores, channels last, and back.

        cuDNN does so unless images or weights are in it already (`memory_format=torch.channels_last`), with kernels
        that are in the A100's trace (benchmarks/data). Those of 1 x 1 are plain products there, in either layout;
        but with TF32 such products lose what they save, by ResNets and wide ResNets of torchvision on an A100.
        """
        if self.x.dim() != 4 or self.x.is_contiguous(memory_format=torch.channels_last):
            return 0.0
        pointwise = prod(self.weight.shape[2:]) == 1
        last = not pointwise and self.weight.is_contiguous(memory_format=torch.channels_last)
        if last or (pointwise and self.x.dtype is not torch.float32):
            return 0.0
        return 2.0 * (size_of(self.x) + size_of(self.y))

    def forward(self) -> Kernel:
        return self.kernel(_positions(self.y), self.weight.shape[0] // self.groups)

    def input_gradient(self) -> Kernel:
        times = STRIDED_INPUT_GRADIENT if max(self.stride) > 1 else 1.0
        return self.kernel(_positions(self.x), self.weight.shape[1], times=times)

    def weight_gradient(self) -> Kernel:
        rows, columns = self.weight.shape[0] // self.groups, prod(self.weight.shape[1:])
        return self.kernel(rows, columns, times=WEIGHT_GRADIENT, tiles=float("inf"))


def _positions(images) -> int:
    return images.numel() // max(images.shape[1], 1)


def _convolution_of(x, weight, y, stride, dilation, transposed, groups) -> _Convolution:
    # A transposed convolution is the gradient of the input of another.
    x, y = (y, x) if transposed else (x, y)
    return _Convolution(x, weight, y, tuple(stride), tuple(dilation), groups)


def _forward(args, results, moved) -> Iterator[Kernel]:
    x, weight, _, stride, _, dilation, transposed, _, groups = args[:9]
    convolution = _convolution_of(x, weight, results[0], stride, dilation, transposed, groups)
    yield convolution.input_gradient() if transposed else convolution.forward()


def _backward(args, results, moved) -> Iterator[Kernel]:
    gradient, x, weight, _, stride, _, dilation, transposed, _, groups, (to_input, to_weight, to_bias) = args[:11]
    convolution = _convolution_of(x, weight, gradient, stride, dilation, transposed, groups)
    if to_input:
        yield convolution.forward() if transposed else convolution.input_gradient()
    if to_weight:
        yield convolution.weight_gradient()
    if to_bias:
        yield Kernel(size_of(gradient))


# --- attention --------------------------------------------------------------------------------------------------

ATTENTION_ROWS = 128  # of queries, that one multiprocessor has at a time


def _attention(query, key, causal: bool, products: int, moved: float) -> Kernel:
    """One kernel for so many products of all queries with all keys; what is causal computes half of the pairs."""
    *batch, queries, width = query.shape
    pairs = prod(batch) * queries * key.shape[-2] * (0.5 if causal else 1.0)
    tiles = prod(batch) * ceil(queries / ATTENTION_ROWS)
    tf32 = torch_private.rounds_float32("matmul")
    backward = int(products == 5)
    operations = 2 * products * pairs * width
    return Kernel(moved, operations, tiles, query.dtype, tf32, ramp=PRODUCT_RAMP, attention=backward)


def _attention_forward(args, results, moved) -> list[Kernel]:
    query, key, value, mask, _, causal, _ = args
    # What dropout kept is worked out again in the backward pass.
    moved = sum(size_of(t) for t in tensors_in([query, key, value, mask, results[0]]))
    return [_attention(query, key, causal, 2, moved)]


def _attention_backward(args, results, moved) -> list[Kernel]:
    gradient, query, key, value, mask, _, causal, *_ = args
    moved = sum(size_of(t) for t in tensors_in([gradient, query, key, value, mask, *results]))
    return [_attention(query, key, causal, 5, moved)]


def _block_forward(causal_at: int):
    """Attention with its log-sum-exp. Settings at the end that are PyTorch's own are left out of `args`."""
    return lambda args, results, moved: [_attention(args[0], args[1], any(args[causal_at:][:1]), 2, moved)]


def _block_backward(causal_at: int):
    return lambda args, results, moved: [_attention(args[1], args[2], any(args[causal_at:][:1]), 5, moved)]


ATTENTION_BLOCKS = {
    attention_blocks.FLASH: _block_forward(causal_at=4),
    attention_blocks.FLASH_BACKWARD: _block_backward(causal_at=11),
    attention_blocks.EFFICIENT: _block_forward(causal_at=6),
    attention_blocks.EFFICIENT_BACKWARD: _block_backward(causal_at=11),
}


def _encoder_layer(args, results, moved) -> Iterator[Kernel]:
    """nn.TransformerEncoderLayer in evaluation is one operator, of the kernels that its parts are."""
    source, width, heads, into_attention, _, out_of_attention, *_ = args
    rows = source.flatten(0, -2)
    for weight in (into_attention, out_of_attention, args[14], args[16]):
        b = weight.t()
        yield _product(rows, b, size_of(rows) + size_of(weight) + rows.shape[0] * b.shape[1] * rows.element_size())
        rows = rows.new_empty(rows.shape[0], width if weight is into_attention else b.shape[1])
    query = source.unflatten(-1, (heads, width // heads)).transpose(-2, -3)
    yield _attention(query, query, False, 2, 4 * size_of(source))
    for _ in range(2):  # norms, with the sums before them
        yield Kernel((3 + MORE_PASSES[aten.native_layer_norm]) * size_of(source))


# --- recurrent layers -------------------------------------------------------------------------------------------

Shape = tuple[int, int]  # of a weight: results, operands


def recurrent(
    of_inputs: Sequence[Shape], of_states: Sequence[Shape], batches: Sequence[tuple[int, int]], dtype, backward: bool
) -> Work:
    """cuDNN's recurrent layers, which take the inputs of all time steps at once and states step by step.

    `batches` has (examples, how many time steps have so many). So do Appleyard, Kocisky and Blunsom (2016, section 3)
    describe it. Layers and directions are charged one after another; cuDNN lets some of them overlap.
    """
    rows = sum(batch * steps for batch, steps in batches)
    kernels = [_dense(rows, *(shape if backward else (shape[1], shape[0])), dtype) for shape in of_inputs]
    kernels += [_step(batch, steps, shape, dtype, backward) for shape in of_states for batch, steps in batches]
    if backward:
        weights = [_dense(results, rows, operands, dtype) for results, operands in (*of_inputs, *of_states)]
        kernels += [kernel._replace(tiles=float("inf")) for kernel in weights]
    flops = (4 if backward else 2) * rows * sum(map(prod, (*of_inputs, *of_states)))
    moved = sum(kernel.times * kernel.traffic for kernel in kernels)
    return Work(flops, int(moved), tuple(kernels))


def _dense(rows: int, inner: int, columns: int, dtype) -> Kernel:
    """A product of cuDNN's inside of its recurrent layers."""
    tiles = _tiles(rows, columns)
    moved = (rows * inner + inner * columns + rows * columns) * dtype.itemsize
    tf32 = torch_private.rounds_float32("rnn")
    return Kernel(moved, 2 * tiles * TILE**2 * inner, tiles, dtype, tf32, ramp=PRODUCT_RAMP)


def _step(batch: int, steps: int, shape: Shape, dtype, backward: bool) -> Kernel:
    """So many time steps: a product of few rows, whose sums are divided, and the gates in a kernel after it."""
    results, operands = shape
    product = _dense(batch, results, operands, dtype) if backward else _dense(batch, operands, results, dtype)
    gates = 2 * batch * results * dtype.itemsize
    return product._replace(traffic=product.traffic + gates, tiles=float("inf"), ramp=STEP_RAMP, times=steps)


# What operators are made of: from their arguments, results and the bytes that they move.
KERNELS: dict[object, Callable[..., Iterator[Kernel] | list[Kernel]]] = {
    aten.mm: lambda args, results, moved: [_product(args[0], args[1], moved)],
    aten.bmm: lambda args, results, moved: [_product(args[0], args[1], moved)],
    aten.addmm: lambda args, results, moved: [_product(args[1], args[2], moved)],
    aten.baddbmm: lambda args, results, moved: [_product(args[1], args[2], moved)],
    aten.convolution: _forward,
    aten.convolution_backward: _backward,
    aten._transformer_encoder_layer_fwd: _encoder_layer,
    **dict.fromkeys((getattr(torch.ops.simgpu, name) for name in attention.FORWARD), _attention_forward),
    torch.ops.simgpu.attention_backward: _attention_backward,
    **ATTENTION_BLOCKS,
}
# Whose time depends on which of PyTorch's switches for float32.
SWITCHES = {
    **dict.fromkeys((aten.mm, aten.bmm, aten.addmm, aten.baddbmm), "matmul"),
    **dict.fromkeys((getattr(torch.ops.simgpu, name) for name in (*attention.FORWARD, "attention_backward")), "matmul"),
    **dict.fromkeys((attention_blocks.EFFICIENT, attention_blocks.EFFICIENT_BACKWARD), "matmul"),
    aten._transformer_encoder_layer_fwd: "matmul",
    **dict.fromkeys((aten.convolution, aten.convolution_backward), "conv"),
}
