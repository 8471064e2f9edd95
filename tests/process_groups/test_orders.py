"""What PyTorch's schedules do on ranks, action by action, beside the same lists run by `utils.schedules`."""

import copy
from functools import wraps

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)

from simgpu import torch_private
from utils.ranks import ranks
from utils.schedules import from_pytorch, gpipe, interleaved_1f1b, one_f_one_b, run, zero_bubble_v

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("torchrun"),
    pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python"),
]

CLOSE = 1e-6  # of the largest number
MSE = nn.functional.mse_loss


def noting(stage, done):
    """A stage of PyTorch that notes each of its actions in `done`, in their short form."""

    def noted(method, kind):
        @wraps(method)
        def call(number, *args, **options):
            done.append(f"{kind(options)}{stage.stage_index}.{number}")
            return method(number, *args, **options)

        return call

    stage.forward_one_chunk = noted(stage.forward_one_chunk, lambda options: "F")
    stage.backward_one_chunk = noted(
        stage.backward_one_chunk, lambda options: "B" if options.get("full_backward", True) else "I"
    )
    stage.backward_weight_one_chunk = noted(stage.backward_weight_one_chunk, lambda options: "W")
    return stage


def farthest(ours, theirs) -> float:
    """The largest difference between tensors, in shares of the largest number among them."""
    pairs = [(mine.detach().cpu(), other.detach()) for mine, other in zip(ours, theirs, strict=True)]
    return max((mine - other).abs().max().item() for mine, other in pairs) / max(
        other.abs().max().item() for _, other in pairs
    )


def orders():
    """For each schedule: what this rank did, what our lists say, and how far apart the gradients are."""
    rank, world = dist.get_rank(), dist.get_world_size()
    device, count = torch.device("simgpu", rank), 2 * world
    generator = torch.Generator().manual_seed(1)
    x, y = torch.randn(16, 64, generator=generator), torch.randn(16, 64, generator=generator)
    told = {}
    for kind, ours in (
        (ScheduleGPipe, gpipe(world, count, newest_first=False)),
        (Schedule1F1B, one_f_one_b(world, count)),
        (ScheduleInterleaved1F1B, interleaved_1f1b(world, count)),
        (ScheduleInterleavedZeroBubble, from_pytorch(ScheduleInterleavedZeroBubble, world, count)),
        (ScheduleZBVZeroBubble, zero_bubble_v(world, count)),
    ):
        torch.manual_seed(0)
        parts = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in ours.placement]
        same = copy.deepcopy(parts)
        run(ours, same, x, y, MSE, ["cpu"] * world)
        places, done = ours.stages_of(rank), []
        stages = [noting(PipelineStage(parts[place].to(device), place, ours.stages, device), done) for place in places]
        schedule = kind(stages if len(stages) > 1 else stages[0], n_microbatches=count, loss_fn=MSE)
        given = [x.to(device)] if 0 in places else []
        target = {"target": y.to(device), "losses": []} if ours.stages - 1 in places else {}
        schedule.step(*given, **target)
        mine, theirs = ([p.grad for place in places for p in each[place].parameters()] for each in (same, parts))
        told[kind.__name__] = {
            "done": done,
            "lists": [str(action) for action in ours.lists[rank]],
            "apart": farthest(theirs, mine),
        }
    return told


@pytest.mark.parametrize("count", [2, 4])
def test_pytorchs_pipelines_do_what_our_lists_say_and_have_the_gradients_of_our_runs(count):
    for each in ranks(count).run(orders):
        assert len(each) == 5
        for name, order in each.items():
            assert order["done"] == order["lists"], name
            assert order["apart"] < CLOSE, name
