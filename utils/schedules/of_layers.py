"""GPipe's schedule of a model cut in parts: which device computes which micro-batch, and when. Nothing runs.

    costs = [LayerCost(0.002, 0.004, 1_000_000), LayerCost(0.002, 0.004, 4_000)]
    schedule(costs, cut=1, micro_batches=4, link=LINKS["nvlink2"]).table()

`schedule` is arithmetic on the costs that it is given; `utils.schedules`, which it calls, has other schedules than
GPipe's. `estimate_costs` makes such costs from layers and a hardware profile. Times are seconds, sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from utils.observe.trace import Timeline
from utils.schedules import Costs, gpipe, play

# A layer's backward pass, as a multiple of its forward pass: one product for the gradient of its input, and one for
# that of its weights where it has any.
BACKWARD_WITH_WEIGHTS, BACKWARD_WITHOUT = 2, 1


class LayerCost(NamedTuple):
    """What one layer costs for one micro-batch: seconds forward and backward, bytes of its output.

    `kernels` is how many the host launches for it, forward and backward; `schedule` does not read it.
    """

    forward: float
    backward: float
    output: int
    name: str = ""
    kernels: int = 0


def schedule(
    costs: Sequence[LayerCost],
    cut: int | Sequence[int],
    micro_batches: int,
    link,
    *,
    devices: Sequence[str] | None = None,
    overlap: bool = True,
    source: str = "computed from the costs of layers, not run",
) -> Timeline:
    """GPipe's schedule of one training step, without the optimizer.

    `costs` are of one micro-batch. `cut` is the first layer of the second device, or the first layers of the second,
    third and further devices. `link` has a `bandwidth` (bytes a second) and a `latency` (seconds). `devices` names
    the lanes: device0, device1, ... unless told.

    `utils.schedules.play` on the lists of `utils.schedules.gpipe`. On each device all forwards run first, in the order
    of the micro-batches; then all backwards, the newest first:

        forward of k   starts when the forward of k-1 here has ended and the copy of k from the device before is here
        backward of k  starts when the backward of k+1 here has ended and its gradient from the device after is here
        a copy         starts when what it copies is computed and the copy before it on the same way has ended,
                       and takes latency + bytes / bandwidth

    A gradient has the bytes of the output that it belongs to. With `overlap=False` a copy also waits for both of its
    devices and both for it, as on CUDA and on simgpu when one stream does everything. What the host needs to launch
    all this is not counted.

    ValueError, one line, for a cut that leaves a device without layers or for no micro-batches.
    """
    cuts = (cut,) if isinstance(cut, int) else tuple(cut)
    ends = (0, *cuts, len(costs))
    if any(after <= before for before, after in pairwise(ends)):
        raise ValueError(f"schedule(cut={cut!r}): for {len(costs)} layers, cuts increase from 1 to {len(costs) - 1}")
    if isinstance(micro_batches, bool) or not isinstance(micro_batches, int) or micro_batches < 1:
        raise ValueError(f"schedule(micro_batches={micro_batches!r}): give a whole number, 1 or more")
    stages = [costs[first:last] for first, last in pairwise(ends)]
    names = tuple(devices) if devices else tuple(f"device{number}" for number in range(len(stages)))
    if len(names) != len(stages):
        raise ValueError(f"schedule(devices={list(names)!r}): name {len(stages)} devices, one for each part")

    costs_of_stages = Costs(
        forward=[sum(layer.forward for layer in stage) for stage in stages],
        backward=[sum(layer.backward for layer in stage) for stage in stages],
        output=[stage[-1].output for stage in stages],
    )
    layers = [f"layers {first} to {last - 1}" for first, last in pairwise(ends)]
    lists = gpipe(len(stages), micro_batches)
    return play(lists, costs_of_stages, link, overlap=overlap, devices=names, names=layers, source=source).timeline


def least_idle(micro_batches: int, stages: int = 2) -> float:
    """The idle share, 0 to 1, of equal stages with free copies: (p-1) / (m+p-1), the bubble over the total time."""
    return (stages - 1) / (micro_batches + stages - 1)


def most_speedup(micro_batches: int, stages: int = 2) -> float:
    """How many times as fast as one device equal stages with free copies are: p x m / (m+p-1)."""
    return stages * (1 - least_idle(micro_batches, stages))


def estimate_costs(layers: Sequence, x, gpu) -> list[LayerCost]:
    """The cost of each layer for the batch `x` on a GPU of the profile `gpu`. Nothing is computed but shapes.

    Forward is simgpu's cost model (`simgpu.estimate`) on the operators that the layer calls. Backward is an
    *approximation*: 2 times the forward's seconds for a layer with weights, 1 time for others. (It is too
    much for the first layer, which needs no gradient of its input.) Neither layers nor simulated GPUs are touched:
    the layers run on PyTorch's "meta" device, with parameters of their own.

    ValueError, one line, for a layer that cannot run so or gives no tensor.
    """
    import torch

    import simgpu

    batch = torch.empty(tuple(x.shape), dtype=x.dtype, device="meta")
    costs = []
    for number, layer in enumerate(layers):
        name = f"{number} {getattr(layer, '__name__', type(layer).__name__)}"
        try:
            forward = simgpu.estimate(layer, batch, gpu)
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ValueError(f"layer {name} cannot take a batch of shape {tuple(batch.shape)}: {reason}") from None
        batch = forward.output
        if not isinstance(batch, torch.Tensor):
            raise ValueError(f"layer {name} returns a {type(batch).__name__}, but devices exchange only one tensor")
        has_weights = any(True for _ in getattr(layer, "parameters", tuple)())
        times = BACKWARD_WITH_WEIGHTS if has_weights else BACKWARD_WITHOUT
        costs.append(
            LayerCost(forward.seconds, times * forward.seconds, forward.bytes, name, forward.kernels * (1 + times))
        )
    return costs
