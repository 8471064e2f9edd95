"""What PyTorch's schedules do on ranks, action by action, beside the same lists run by `utils.schedules`."""

import copy
from functools import wraps

import torch
from checks import RANK, WORLD, check, device, farthest, numbers
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)

from utils.schedules import from_pytorch, gpipe, interleaved_1f1b, one_f_one_b, run, zero_bubble_v

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


@check
def orders():
    """For each schedule: what this rank did, what our lists say, and how far apart the gradients are."""
    count = 2 * WORLD
    x, y = numbers(16, 64), numbers(16, 64, seed=2)
    told = {}
    for kind, ours in (
        (ScheduleGPipe, gpipe(WORLD, count, newest_first=False)),
        (Schedule1F1B, one_f_one_b(WORLD, count)),
        (ScheduleInterleaved1F1B, interleaved_1f1b(WORLD, count)),
        (ScheduleInterleavedZeroBubble, from_pytorch(ScheduleInterleavedZeroBubble, WORLD, count)),
        (ScheduleZBVZeroBubble, zero_bubble_v(WORLD, count)),
    ):
        torch.manual_seed(0)
        parts = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in ours.placement]
        same = copy.deepcopy(parts)
        run(ours, same, x, y, MSE, ["cpu"] * WORLD)
        places, done = ours.stages_of(RANK), []
        stages = [
            noting(PipelineStage(parts[place].to(device()), place, ours.stages, device()), done) for place in places
        ]
        schedule = kind(stages if len(stages) > 1 else stages[0], n_microbatches=count, loss_fn=MSE)
        given = [x.to(device())] if 0 in places else []
        target = {"target": y.to(device()), "losses": []} if ours.stages - 1 in places else {}
        schedule.step(*given, **target)
        mine, theirs = ([p.grad for place in places for p in each[place].parameters()] for each in (same, parts))
        told[kind.__name__] = {
            "done": done,
            "lists": [str(action) for action in ours.lists[RANK]],
            "apart": farthest(theirs, mine),
        }
    return told
