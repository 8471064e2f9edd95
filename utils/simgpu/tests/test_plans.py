"""Plans against the long way: each call that is planned is run the long way too, and what comes of it is compared.

The calls are those of PyTorch's own database of operators, each made twice, so that the second is planned.
A plan that was made of other arguments, and whose key says too little of them, is found in the same way.
"""

import contextlib
from itertools import islice

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only

import simgpu
from simgpu import dispatch
from simgpu.hardware import machine
from simgpu.moves import keeping_counts
from simgpu.tensor import SimTensor

pytestmark = pytest.mark.filterwarnings("ignore")  # about how the samples call things

DEVICE = "simgpu:1"
SAMPLES = 2  # of each operator, at most
# What a sample may need that a machine with shapes only does not have, or that no simulated GPU has.
REFUSALS = (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError, IndexError)


class Crosscheck:
    """In place of what runs an operator by its plan. `compared` names the operators that were."""

    def __init__(self, monkeypatch):
        self.planned, self.long_way, self.launch = dispatch._run_planned, dispatch.run_the_long_way, machine.launch
        self.launched, self.by_plan = [], True
        self.compared, self.wrong = set(), []
        monkeypatch.setattr(dispatch, "_run_planned", self.run)
        monkeypatch.setattr(dispatch, "run_the_long_way", self.run_the_long_way)
        monkeypatch.setattr(machine, "launch", self.note_launch)

    def note_launch(self, gpu, seconds, name, moved, flops, queue=None):
        self.launched.append((gpu, seconds, name, moved, flops))
        self.launch(gpu, seconds, name, moved, flops, queue)

    def run_the_long_way(self, *given):
        self.by_plan = False
        return self.long_way(*given)

    def run(self, operator, args, kwargs):
        self.by_plan, self.launched = True, []
        out = self.planned(operator, args, kwargs)
        if self.by_plan:
            planned, self.launched = self.launched, []
            again = self.long_way(operator, args, kwargs or {})
            one, other = (planned, described(out, args)), (self.launched, described(again, args))
            self.compared.add(operator.packet.__name__)
            if one != other:
                self.wrong.append(f"{operator.func}: by its plan {one}, the long way {other}")
        return out


def described(out, args):
    """All that can be seen of results: which are arguments, which share the memory of which, and their outsides."""
    given = tree_leaves(args)
    storages = [t._storage for t in given if type(t) is SimTensor]
    told = [type(out)]
    for value in tree_leaves(out):
        if type(value) is not SimTensor:
            told.append(value)
            continue
        if value._storage not in storages:
            storages.append(value._storage)
        outside = value.shape, value.stride(), value.storage_offset(), value.dtype, value.device, value._layout
        place = [value is one for one in given], storages.index(value._storage), value._storage.size
        told.append((*outside, *place))
    return told


@pytest.fixture
def crosscheck(monkeypatch):
    simgpu.enable(count=2, compute=False)
    return Crosscheck(monkeypatch)


def on_device(values):
    return tree_map_only(torch.Tensor, lambda t: t.detach().to(DEVICE).requires_grad_(t.requires_grad), values)


def twice(call) -> None:
    """Some samples need values, or what simulated GPUs refuse: they end where they do, the second like the first."""
    for _ in range(2):
        with contextlib.suppress(*REFUSALS):
            call()


def test_plans_of_operators_do_what_the_long_way_does(crosscheck):
    for info in op_db:
        if torch.float32 not in info.dtypes:
            continue
        for sample in islice(info.sample_inputs_func(info, "cpu", torch.float32, False), SAMPLES):
            given = sample.input, sample.args, sample.kwargs
            if all(t.layout is torch.strided for t in tree_leaves(given) if isinstance(t, torch.Tensor)):
                given, args, kwargs = on_device(given)
                twice(lambda: info.op(given, *args, **kwargs))  # noqa: B023
        assert not crosscheck.wrong, info.name
    assert {"add", "bmm", "cat", "native_layer_norm", "_softmax", "sort", "split", "var_mean"} <= crosscheck.compared


@pytest.mark.parametrize(
    ("reason", "call"),
    [
        ("a tensor that is not simulated", lambda x, y: x + torch.tensor(1.0)),
        ("a tensor that is not simulated", lambda x, y: torch._foreach_add([x], [torch.tensor(1.0)])),
        ("tensors of two GPUs", lambda x, y: x + y),
        ("tensors of two GPUs", lambda x, y: torch.cat([x, y])),
        ("a device argument", lambda x, y: torch.zeros_like(x, device=DEVICE)),
        ("a tensor given by name", lambda x, y: torch.argmax(x, out=torch.empty(0, dtype=torch.int64, device=DEVICE))),
        ("an operator that is never planned", lambda x, y: x.resize_(x.shape)),
        ("complex numbers", lambda x, y: torch.complex(x, x)),
        ("an argument that cannot be a key", lambda x, y: torch.histogramdd(x, [2] * 5, range=[0.0, 1.0] * 5)),
        ("first call", lambda x, y: x + x.new_ones(7, 5)),
    ],
)
def test_each_call_that_is_not_planned_is_counted_by_its_reason(reason, call):
    simgpu.enable(count=3)
    simgpu.enable(count=2)  # a new machine, on which nothing was called
    x, y = torch.ones(7, 5, device=DEVICE), torch.ones(7, 5, device="simgpu:0")
    before = simgpu.unplanned()
    with contextlib.suppress(*REFUSALS):
        call(x, y)
    assert reason in simgpu.unplanned() - before


def test_planned_calls_are_not_counted_as_unplanned_and_a_new_machine_begins_at_nothing():
    simgpu.enable(count=3)
    simgpu.enable(count=2)
    assert not simgpu.unplanned()
    x = torch.ones(7, 5, device=DEVICE)
    before = simgpu.unplanned()
    x.mul(2.0)
    counted = simgpu.unplanned()
    assert counted - before == {"first call": 1}
    for factor in (2.0, 3.0, 4.0):
        x.mul(factor)
    assert simgpu.unplanned() == counted
    counted.clear()  # a copy
    assert simgpu.unplanned()


def test_counts_keep_their_numbers_where_there_are_only_shapes():
    simgpu.enable(count=1, compute=False)
    with keeping_counts():
        counts = torch.tensor([3, 4], device="simgpu:0")
        ratio = torch.tensor([0.5], device="simgpu:0")
    later = torch.tensor([3, 4], device="simgpu:0")
    assert [each.item() for each in (counts[1], torch.empty_like(counts).copy_(counts)[0])] == [4, 3]
    counts.add_(1)
    assert counts.cpu().tolist() == [4, 5]
    for unknown in (ratio, later):
        with pytest.raises(RuntimeError, match="keeps only shapes"):
            unknown[0].item()


@pytest.mark.parametrize("pinned", [False, True])
def test_shapes_are_copied_to_the_host_where_only_the_time_is_asked_for(pinned):
    """The host waits for a copy into memory that is not pinned, and goes on beside another."""
    simgpu.enable(count=1, compute=False, host_link="pcie4")
    x = torch.ones(2**20, 4, device="simgpu:0")
    torch.get_device_module("simgpu").synchronize()
    begin = simgpu.now()
    with simgpu.copying_shapes():
        home = x.to("cpu", non_blocking=pinned)
        later = simgpu.now()
        torch.empty_like(home).copy_(x)
    assert (home.shape, home.dtype, home.device.type) == (x.shape, x.dtype, "cpu")
    link = simgpu.settings().host_link
    copying = link.seconds(x.nbytes, pageable=True)
    assert later - begin == pytest.approx(simgpu.settings().gpu.launch + (0 if pinned else copying))
    with pytest.raises(RuntimeError, match="keeps only shapes"):
        x.cpu()


@pytest.mark.parametrize("write", [lambda counts, other: counts.add_(other), lambda counts, other: counts.copy_(other)])
def test_counts_forget_their_numbers_when_random_numbers_are_written_there(write):
    simgpu.enable(count=1, compute=False)
    other = torch.tensor([1, 2], device="simgpu:0")
    for _ in range(3):  # the second time there could be a plan
        with keeping_counts():
            counts = torch.tensor([3, 4], device="simgpu:0")
        write(counts, other)
        with pytest.raises(RuntimeError, match="keeps only shapes"):
            counts[0].item()


@pytest.mark.parametrize("compute", [True, False])
def test_the_kind_of_a_result_follows_the_default_kind(compute):
    simgpu.enable(count=2, compute=compute)
    whole = torch.ones(3, dtype=torch.int64, device=DEVICE)
    calls = (lambda: whole + 1.5, lambda: whole / 2, lambda: torch.sigmoid(whole), lambda: torch.add(whole, 1, alpha=1))
    before = torch.get_default_dtype()
    try:
        for kind in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            torch.set_default_dtype(kind)
            assert [call().dtype for call in calls] == [kind] * 3 + [torch.int64]
    finally:
        torch.set_default_dtype(before)
    assert compute is False or torch.equal((whole / 3).cpu(), whole.cpu() / 3)


def test_equal_numbers_of_other_kinds_are_other_arguments():
    ones, on_host = torch.ones(2, device=DEVICE), torch.ones(2)
    for number in (1, complex(1, 0), 1.0, True):
        assert (ones * number).dtype == (on_host * number).dtype
        assert torch.add(ones, 1, alpha=1).dtype == torch.float32
    true = ones > 0
    for numbers in ([True, True], [1, 1], [True, 1], [1, 1.0], [1, True], [1, complex(1, 0)]):
        summed = torch._foreach_add([true, true], numbers)
        assert [t.dtype for t in summed] == [t.dtype for t in torch._foreach_add([on_host > 0] * 2, numbers)]
