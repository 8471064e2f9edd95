"""Faults that change times, in one process, and what makes no sense. Ranks: process_groups/test_broken.py."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import simgpu
from simgpu import faults, torch_private
from simgpu.distributed.backend import SimBackend

SIMGPU = str(Path(simgpu.__file__).parents[1])  # for processes that this one starts
needs_backends = pytest.mark.skipif(not torch_private.has_python_backends(), reason="no backends written in Python")


def durations(device, kind="kernel"):
    return [one.end - one.start for one in simgpu.log() if one.kind == kind and one.device == device]


def work_on(device, stream=None):
    """Kernels of several kinds, and copies, on a GPU."""
    with torch.simgpu.stream(stream or torch.simgpu.default_stream(device)):
        x = torch.ones(512, 512).to(device)
        for _ in range(3):
            x = torch.relu(x @ x) + 1
    torch.simgpu.synchronize(device)


@pytest.mark.parametrize("priority", [None, 0, -1])
def test_kernels_of_a_slow_gpu_take_factor_times_as_long_and_copies_do_not(priority):
    simgpu.enable(count=4, compute=False, faults=tuple(itertools.starmap(faults.SlowGpu, [(1, 1.6), (2, 1), (3, 2)])))
    for index in range(4):
        device = f"simgpu:{index}"
        work_on(device, None if priority is None else torch.simgpu.Stream(device, priority))
    healthy, slow, as_healthy, twice = map(durations, range(4))
    assert len(healthy) > 6
    assert slow == pytest.approx([1.6 * seconds for seconds in healthy], rel=1e-9)
    assert as_healthy == pytest.approx(healthy, rel=1e-9)
    assert twice == pytest.approx([2 * seconds for seconds in healthy], rel=1e-9)
    assert durations(1, "h2d") == pytest.approx(durations(0, "h2d"), rel=1e-9)


def test_a_slow_gpu_is_that_of_the_rank_and_no_place_on_each_node(monkeypatch):
    """As torchrun's second node of four."""
    for name, value in {"RANK": 5, "LOCAL_RANK": 1, "WORLD_SIZE": 8, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    simgpu.enable(count=4, compute=False, faults=(faults.SlowGpu(6, 2.0), faults.SlowGpu(1, 3.0)))
    for index in range(4):
        work_on(f"simgpu:{index}")
    one = sum(durations(0))
    assert [sum(durations(index)) / one for index in range(4)] == pytest.approx([1, 1, 2, 1])


JITTERED = """
import torch, simgpu
from simgpu import faults
simgpu.enable(count=1)
simgpu.enable(count=2, compute=False, faults=(faults.Jitter(0.3, seed),) if seed else ())
for index in range(2):
    x = torch.ones(512, 512, device=f"simgpu:{index}")
    for _ in range(20):
        x = x @ x
taken = [[one.end - one.start for one in simgpu.log() if one.name == "mm" and one.device == index] for index in (0, 1)]
"""


def jittered(seed):
    found = {"seed": seed}
    exec(JITTERED, found)
    return found["taken"]


def test_jitter_comes_from_the_seed_alone_and_from_the_rank():
    environment = {"PYTHONPATH": SIMGPU, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    code = f"seed = 7\n{JITTERED}\nimport json; print(json.dumps(taken))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    one, other, healthy = jittered(7), jittered(8), jittered(0)
    assert one == jittered(7) == json.loads(done.stdout)  # Python's hash has another seed there
    ratios = [[slow / plain for slow, plain in zip(*rank, strict=True)] for rank in zip(one, healthy, strict=True)]
    for rank in ratios:
        assert len(rank) == 20
        assert all(1 - 1e-9 <= ratio <= 1.3 + 1e-9 for ratio in rank)
        assert max(rank) - min(rank) > 0.15
    assert ratios[0] != pytest.approx(ratios[1])
    assert other[0] != pytest.approx(one[0])


def test_without_a_fault_of_its_own_a_gpu_has_nothing_to_ask():
    simgpu.enable(count=2, faults=(faults.SlowGpu(1, 1.5), faults.SlowAdapter(0, 0.5)))
    assert [gpu.longer is None for gpu in simgpu.hardware.machine.gpus] == [True, False]


# --- adapters ------------------------------------------------------------------------------------------------------


def seconds_of(call, members, me=0, slow=(), count=6, nodes=3):
    """What a call of one rank takes, of six in three nodes of which one process stands for all."""
    given = tuple(faults.SlowAdapter(node, share) for node, share in slow)
    simgpu.enable(count=1)
    simgpu.enable(count=count, nodes=nodes, gpu="H100", link="nvlink4", network="100G", compute=False, faults=given)
    who = {"group_rank": members.index(me), "group_size": len(members), "global_ranks_in_group": members}
    backend = SimBackend(SimpleNamespace(store=torch_private.fake_store(), timeout=None, **who))
    begin = simgpu.now()
    call(backend).wait()
    torch.simgpu.synchronize()
    return simgpu.now() - begin


def big(rows=100 << 20):
    return torch.empty(rows, device="simgpu:0")


def all_reduce(backend):
    return backend.allreduce([big()])


def all_to_all(*sizes):
    """Each rank's rows of a mebibyte, both ways."""

    def call(backend):
        given, got = (torch.empty(sum(sizes), 1 << 18, device="simgpu:0") for _ in range(2))
        return backend.all_to_all_single(got, given, list(sizes), list(sizes))

    return call


def send(to):
    return lambda backend: backend.send([big()], to)


@pytest.fixture
def six(monkeypatch):
    if not torch_private.has_python_backends():
        pytest.skip("no backends written in Python")
    monkeypatch.setenv("WORLD_SIZE", "6")


ALL = [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("call", "members", "times"),
    [
        (all_reduce, ALL, 4),
        (all_reduce, [0, 2, 4], 4),
        (all_reduce, [0, 1], 1),  # within a node
        (all_reduce, [0, 4], 1),  # between two others
        (all_to_all(64, 64, 64), [0, 2, 4], 4),
        (all_to_all(64, 64), [0, 4], 1),
        (all_to_all(0, 0, 64), [0, 2, 4], 1),  # with nothing for the slow node
        (all_to_all(0, 8, 64), [0, 2, 4], 1),  # 8 for it take as long as 64 of 72 for others
        (all_to_all(0, 240, 240), [0, 2, 4], 4),
        (send(2), ALL, 4),
        (send(4), ALL, 1),
        (send(1), ALL, 1),
    ],
)
def test_a_slow_adapter_slows_what_touches_its_node(six, call, members, times):
    healthy = seconds_of(call, members)
    assert seconds_of(call, members, slow=[(1, 0.25)]) / healthy == pytest.approx(times, rel=0.01)


def test_within_the_node_of_a_slow_adapter_nothing_changes(six):
    def reduced(**slow):
        return seconds_of(all_reduce, [2, 3], me=2, **slow)

    assert reduced(slow=[(1, 0.25)]) == reduced()


def test_the_slowest_of_several_adapters_decides(six):
    slow = [(0, 0.5), (1, 0.25), (2, 0.5)]
    both = seconds_of(all_reduce, ALL, slow=slow)
    assert both == seconds_of(all_reduce, ALL, slow=slow[1:2])
    assert seconds_of(all_reduce, [0, 4], slow=slow) < both


def test_copies_between_nodes_of_one_process_pass_the_slow_adapter():
    def copied(*given):
        simgpu.enable(count=1)
        simgpu.enable(count=6, nodes=3, network="100G", compute=False, faults=given)
        x = torch.empty(100 << 20, device="simgpu:0")
        for index in (1, 2, 4):
            x.to(f"simgpu:{index}")
        return durations(0, "d2d")

    ratios = [slow / healthy for slow, healthy in zip(copied(faults.SlowAdapter(1, 0.25)), copied(), strict=True)]
    assert ratios == pytest.approx([1, 4, 1], rel=0.01)


@needs_backends
def test_one_process_for_all_ranks_refuses_what_tells_them_apart():
    simgpu.enable(count=2, faults=(faults.KilledRank(0, 1), faults.SlowAdapter(0, 0.5), faults.SlowGpu(1, 2)))
    who = {"group_rank": 0, "group_size": 2, "global_ranks_in_group": [0, 1]}
    with pytest.raises(ValueError, match="has KilledRank and SlowGpu, and one process stands for all ranks here"):
        SimBackend(SimpleNamespace(store=torch_private.fake_store(), timeout=None, **who))


# --- what makes no sense -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: faults.SlowGpu(-1, 2), "SlowGpu(rank=-1): rank must be a whole number from 0 on"),
        (lambda: faults.SlowGpu(True, 2), "SlowGpu(rank=True): rank must be"),
        (lambda: faults.SlowGpu(0, 0.5), "SlowGpu(factor=0.5): factor must be a number from 1 on"),
        (lambda: faults.SlowGpu(0, float("inf")), "SlowGpu(factor=inf): factor must be"),
        (lambda: faults.SlowGpu(0, "2"), "SlowGpu(factor='2'): factor must be"),
        (lambda: faults.SlowAdapter(0, 0), "SlowAdapter(share=0): share must be a number above 0, at most 1"),
        (lambda: faults.SlowAdapter(0, 1.5), "SlowAdapter(share=1.5): share must be"),
        (lambda: faults.SlowAdapter(0.5, 1), "SlowAdapter(node=0.5): node must be"),
        (lambda: faults.Jitter(-0.1, 1), "Jitter(deviation=-0.1): deviation must be a number from 0 on"),
        (lambda: faults.Jitter(0.1, None), "Jitter(seed=None): seed must be a whole number"),
        (
            lambda: faults.SkippedCollective(0, 0),
            "SkippedCollective(number=0): number must be a whole number from 1 on",
        ),
        (lambda: faults.OtherCollective("0", 1), "OtherCollective(rank='0'): rank must be"),
        (lambda: faults.KilledRank(0, 1.0), "KilledRank(number=1.0): number must be"),
        (lambda: simgpu.enable(faults=faults.SlowGpu(0, 2)), "faults must be a tuple of them"),
        (lambda: simgpu.enable(faults=("slow",)), "'slow' is no fault. There are: SlowGpu, SlowAdapter, Jitter"),
        (lambda: simgpu.enable(count=4, faults=[faults.SlowGpu(4, 2)]), "there is no such rank, ranks are 0 to 3"),
        (lambda: simgpu.enable(count=1, faults=[faults.KilledRank(1, 2)]), "no such rank, there is only rank 0"),
        (lambda: simgpu.enable(count=4, nodes=2, faults=[faults.SlowAdapter(2, 1)]), "no such node, nodes are 0 to 1"),
    ],
)
def test_what_makes_no_sense_is_said_in_one_line(make, says):
    before = simgpu.settings()
    with pytest.raises(ValueError) as told:  # noqa: PT011  # its words are compared below
        make()
    assert says in str(told.value)
    assert "\n" not in str(told.value)
    assert simgpu.settings() == before


def test_equal_faults_are_the_same_machine_and_others_another():
    kinds = (faults.SkippedCollective, faults.OtherCollective, faults.KilledRank)
    assert all(one(0, 1) != other(0, 1) for one, other in itertools.combinations(kinds, 2))
    simgpu.enable(count=2, faults=(faults.KilledRank(1, 2),))
    before = simgpu.generation()
    simgpu.enable(count=2, faults=[faults.KilledRank(1, 2)])
    assert simgpu.generation() == before
    simgpu.enable(count=2, faults=(faults.SkippedCollective(1, 2),))
    assert simgpu.generation() == before + 1


# --- the flight recorder -------------------------------------------------------------------------------------------


@needs_backends
def test_the_newest_calls_are_kept_as_many_as_asked_for(monkeypatch):
    def recorded(most):
        monkeypatch.setenv("TORCH_FR_BUFFER_SIZE", most)
        simgpu.enable(count=1)
        simgpu.enable(count=2, compute=False)
        who = {"group_rank": 0, "group_size": 2, "global_ranks_in_group": [0, 1]}
        backend = SimBackend(SimpleNamespace(store=torch_private.fake_store(), timeout=None, **who))
        for size in range(1, 6):
            backend.allreduce([torch.empty(size, device="simgpu:0")])
        return [(one["record_id"], one["input_sizes"]) for one in simgpu.flight_recorder()["entries"]]

    assert recorded("3") == [(2, [[3]]), (3, [[4]]), (4, [[5]])]
    assert recorded("0") == []
