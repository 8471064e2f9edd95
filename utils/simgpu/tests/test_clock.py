"""The clock against a second simulator, which knows nothing of the first: random programs take the same times in both.

The second is a list scheduler. It has no gaps to keep and no moments to remember, only the list of what ran: each new
operation is put at the earliest of the few moments at which it could begin, and is not in the way of anything there.
"""

import random

import pytest
import torch

import simgpu
from simgpu.hardware import machine
from simgpu.profiles import GpuProfile, LinkProfile

# Sums of these are exact, so that much ends at the very moment at which something else begins.
LAUNCH = 2.0**-10
GPU = GpuProfile("a GPU", 1e12, 1e9, 1e9, 1, "made up for this test", launch=LAUNCH)
LINK = LinkProfile("a link", 2.0**20, "made up for this test", latency=2 * LAUNCH)
HOST_LINK = LinkProfile("a link to the host", 2.0**19, "made up for this test", latency=LAUNCH)
KERNELS = [LAUNCH / 2, 3 * LAUNCH, 11 * LAUNCH]  # seconds
SIZES = [2**10, 2**12, 2**14]  # bytes


class ListScheduler:
    """Operations as (start, end, what each occupies). Streams and engines are occupied by one at a time."""

    def __init__(self):
        self.host = 0.0
        self.ran: list[tuple[float, float, set]] = []
        self.told: dict[tuple, float] = {}  # a stream -> what it was told to wait for

    def free(self, stream) -> float:
        ends = [end for _, end, occupied in self.ran if stream in occupied]
        return max([self.told.get(stream, 0.0), *ends])

    def run(self, seconds: float, streams: list, engines: list) -> tuple[float, float]:
        self.host += LAUNCH
        earliest = max([self.host, *map(self.free, streams)])
        others = [(start, end) for start, end, occupied in self.ran if occupied & set(engines)]
        for begin in sorted([earliest, *(end for _, end in others if end > earliest)]):
            if all(end <= begin or start - begin >= seconds for start, end in others):
                break
        self.ran.append((begin, begin + seconds, {*streams, *engines}))
        return begin, begin + seconds


class Program:
    """What a program of random operations does on simulated GPUs, and what the list scheduler says of it."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.gpus = self.random.randint(1, 3)
        simgpu.enable(count=self.gpus, gpu=GPU, link=LINK, host_link=HOST_LINK, compute=False)
        self.expected, self.events = ListScheduler(), []
        self.streams = [(gpu, 0) for gpu in range(self.gpus)]
        self.real = {(gpu, 0): torch.simgpu.default_stream(gpu) for gpu in range(self.gpus)}
        if self.random.random() < 0.8:  # the others have the shorter way of one stream on each GPU
            for gpu in range(self.gpus):
                for number in range(1, self.random.randint(1, 4)):
                    self.streams.append((gpu, number))
                    self.real[gpu, number] = torch.simgpu.Stream(gpu)
        self.times: list[tuple[float, float]] = []

    def kernel(self, stream):
        seconds = self.random.choice(KERNELS)
        with self.real[stream]:
            machine.launch(machine.gpu(stream[0]), seconds, "kernel", 1, 0)
        self.times.append(self.expected.run(seconds, [stream], [("compute", stream[0])]))

    def copy(self, source):
        target, size = self.random.choice(self.streams), self.random.choice(SIZES)
        if target[0] == source[0]:
            return
        with self.real[source], self.real[target]:
            machine.copy_between(machine.gpu(source[0]), machine.gpu(target[0]), size)
        engines = [("out", source[0]), ("in", target[0])]
        self.times.append(self.expected.run(LINK.latency + size / LINK.bandwidth, [source, target], engines))

    def copy_with_host(self, stream):
        size, to_host, wait = self.random.choice(SIZES), self.random.random() < 0.5, self.random.random() < 0.3
        with self.real[stream]:
            machine.copy_with_host(machine.gpu(stream[0]), size, to_host=to_host, pinned=True, wait=wait)
        seconds = HOST_LINK.latency + size / HOST_LINK.bandwidth
        self.times.append(self.expected.run(seconds, [stream], [("out" if to_host else "in", stream[0])]))
        if wait:
            self.host_waits(self.times[-1][1])

    def host_waits(self, moment):
        self.expected.host = max(self.expected.host, moment)

    def record(self, stream):
        self.events.append((self.real[stream].record_event(), max(self.expected.free(stream), self.expected.host)))

    def wait_event(self, stream):
        if self.events:
            event, moment = self.random.choice(self.events)
            self.real[stream].wait_event(event)
            self.expected.told[stream] = max(moment, self.expected.told.get(stream, 0.0))

    def wait_stream(self, stream):
        other = self.random.choice(self.streams)
        self.real[stream].wait_stream(self.real[other])
        self.expected.told[stream] = max(self.expected.free(other), self.expected.told.get(stream, 0.0))

    def synchronize(self, stream):
        self.real[stream].synchronize()
        self.host_waits(self.expected.free(stream))

    def run(self, length: int):
        kinds = [self.kernel, self.copy, self.copy_with_host, self.record, self.wait_event, self.wait_stream]
        for _ in range(length):
            kind = self.random.choices([*kinds, self.synchronize], [8, 6, 3, 2, 2, 2, 0.3])[0]
            kind(self.random.choice(self.streams))
        return [(record.start, record.end) for record in simgpu.log()]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_take_the_times_of_a_list_scheduler(seed):
    program = Program(seed)
    simgpu.keep_log(0)
    simgpu.keep_log()
    assert program.run(80) == program.times
    assert simgpu.now() == program.expected.host
