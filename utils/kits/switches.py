"""Lab 12's model in shards: what a rank receives and holds in a step, with the switches of FSDP2."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from utils.exercises.tasks.lesson12.sizes import received
from utils.observe.trace import record


def step_with_switches(
    layers: int, hidden: int, micro_batches: int, reshard_after_forward: bool, reduce_once: bool, keep_weights: bool
) -> tuple[float, int]:
    """Bytes that a rank receives and that it holds at its peak, in the second step with Adam. For `ranks`.

    The model has `layers` layers of `hidden` x `hidden` parameters. Each micro-batch is one sample, so activations
    are small. The peak is that of the passes, without the optimizer's temporary tensors.
    """
    gpu = torch.device("simgpu", dist.get_rank())
    memory = torch.get_device_module(gpu)
    with torch.device("meta"):
        model = nn.Sequential(*[nn.Linear(hidden, hidden, bias=False) for _ in range(layers)])
    for layer in model:
        fully_shard(layer, reshard_after_forward=reshard_after_forward)
    sharded = fully_shard(model, reshard_after_forward=reshard_after_forward)
    model.to_empty(device=gpu)
    optimizer = torch.optim.Adam(model.parameters())
    moved, most = 0.0, 0
    for _ in range(2):
        optimizer.zero_grad()
        memory.reset_peak_memory_stats(gpu)
        with record(gpu) as timeline:
            for number in range(micro_batches):
                last = number == micro_batches - 1
                sharded.set_requires_gradient_sync(last or not reduce_once)
                sharded.set_reshard_after_backward(last or not keep_weights)
                model(torch.ones(1, hidden, device=gpu)).square().mean().backward()
        moved, most = sum(received(timeline)), memory.max_memory_allocated(gpu)
        optimizer.step()
    return moved, most
