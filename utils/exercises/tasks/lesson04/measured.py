"""What the facts about lesson 04's `split_times` measure, with the student's function. All returns are plain data."""

import torch
from torch import nn

from utils.exercises.facts.probes import kind_of
from utils.observe.devices import is_simulated, synchronize
from utils.observe.trace import record

INPUTS, HIDDEN, BATCH = 64, 6000, 2048  # part0 computes longer than the host needs to launch it and the copy


class TwoParts(nn.Module):
    def __init__(self, device0, device1):
        super().__init__()
        self.part0 = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU()).to(device0)
        self.part1 = nn.Sequential(nn.Linear(HIDDEN, INPUTS), nn.ReLU()).to(device1)
        self.device0, self.device1 = device0, device1

    def forward(self, x):
        return self.part1(self.part0(x.to(self.device0)).to(self.device1))


def one_pass(split_times, device0, device1, busy_before):
    """What `split_times` says of a pass, and on simulated devices what a recording of the same pass says.

    `told`: its three numbers. `right`: milliseconds of part0, the copy and part1. `waited`: the parts after which the
    host waited before it launched the next. `ran`: how often part0 and part1 ran.
    """
    devices = [torch.device(device0), torch.device(device1)]
    model, x = TwoParts(*devices), torch.ones(BATCH, INPUTS).to(devices[0])
    model(x)
    ran = [0, 0]
    for number, part in enumerate((model.part0, model.part1)):
        part.register_forward_pre_hook(lambda *_, number=number: count(ran, number))
    for device in devices:
        synchronize(device)
    if busy_before:
        for device in devices:
            torch.mm(torch.zeros(16, 90_000, device=device), torch.zeros(90_000, 16, device=device))
    with record(*devices) as timeline:
        found = split_times(model, x, *devices)
    seen = {"kind": kind_of(found), "ran": ran}
    if isinstance(found, (list, tuple)):
        seen["told"] = [float(value) if isinstance(value, (int, float)) else kind_of(value) for value in found]
    if is_simulated(devices[0]):
        seen |= from_the_log(timeline)
    return seen


def count(ran, number):
    ran[number] += 1


def from_the_log(timeline):
    groups = [[e for e in timeline.events if e.is_kernel and e.module.startswith("part0")]]
    groups.append([e for e in timeline.events if e.kind == "d2d"])
    groups.append([e for e in timeline.events if e.is_kernel and e.module.startswith("part1")])
    found = {"copies": len(groups[1])}
    if all(groups):
        found["right"] = [1e3 * (group[-1].end - group[0].start) for group in groups]
        pairs = zip(("part0", "the copy"), groups[:-1], groups[1:], strict=True)
        found["waited"] = [name for name, one, after in pairs if after[0].launched >= one[-1].end]
    return found
