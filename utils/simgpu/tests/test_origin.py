"""Where a kernel came from: what the log says of module, phase and label."""

import gc
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import simgpu
from simgpu.hardware import machine

DEVICE = "simgpu:0"


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)


def origins(*names):
    """The module and phase of each kernel of these names, in order."""
    return [(record.module, record.phase) for record in simgpu.log() if record.name in names]


class Calls(nn.Module):
    """A module that calls a function, and another module within."""

    def __init__(self, function, inner=None):
        super().__init__()
        self.function, self.inner = function, inner

    def forward(self, x):
        return self.function(x if self.inner is None else self.inner(x))


def ones(**settings):
    return torch.ones(4, device=DEVICE, **settings)


def raises(x):
    raise ArithmeticError


class TwoParts(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).to("simgpu:0")
        self.second = nn.Linear(8, 2).to("simgpu:1")

    def forward(self, x):
        return self.second(self.first(x).to("simgpu:1")).exp()


def test_the_log_says_module_and_phase():
    model = TwoParts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.ones(3, 4, device="simgpu:0")
    simgpu.keep_log(0)
    simgpu.keep_log()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    seen = {(r.kind, r.name, r.module, r.phase) for r in simgpu.log()}
    for expected in (
        ("kernel", "addmm", "first.0", "forward"),
        ("kernel", "relu", "first.1", "forward"),
        ("d2d", "copy", "TwoParts", "forward"),
        ("kernel", "exp", "TwoParts", "forward"),
        ("kernel", "sum", "", "forward"),
        ("kernel", "mm", "second", "backward"),
        ("d2d", "copy", "TwoParts", "backward"),
        ("kernel", "threshold_backward", "first.1", "backward"),
        ("kernel", "_foreach_add_", "SGD", "optimizer"),
    ):
        assert expected in seen


def test_a_label_follows_the_work_into_its_backward_pass():
    layer, x = nn.Linear(4, 4, device="simgpu:0"), torch.ones(2, 4, device="simgpu:0")
    losses = []
    for piece in range(2):
        with simgpu.label(f"micro-batch {piece}"):
            losses.append(layer(x).exp().sum())
    simgpu.keep_log(0)
    simgpu.keep_log()
    sum(losses).backward()
    seen = {(r.name, r.phase, r.label) for r in simgpu.log()}
    assert {("mm", "backward", f"micro-batch {piece}") for piece in range(2)} <= seen
    assert simgpu.describe() == "2 x V100, nvlink2, virtual clock"


def test_a_module_is_known_however_deep_its_functions_are():
    def deep(x, depth=50):
        return deep(x, depth - 1) if depth else x.exp()

    Calls(torch.neg, Calls(deep))(ones())
    assert origins("exp", "neg") == [("inner", "forward"), ("Calls", "forward")]


def test_an_error_leaves_no_module_and_no_optimizer_behind():
    weight = ones(requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)

    def fails_within(x):
        with pytest.raises(ArithmeticError):
            Calls(torch.neg, Calls(raises))(x)
        return x.exp()

    Calls(torch.neg, Calls(fails_within))(ones())
    with pytest.raises(ArithmeticError):
        optimizer.step(lambda: raises(weight))
    ones().exp()
    assert origins("exp") == [("inner", "forward"), ("", "forward")]


def test_each_thread_runs_its_own_modules():
    def in_another_thread(x):
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(lambda: Calls(torch.sin, Calls(torch.cos))(x).tan()).result() is not None
        return x.exp()

    Calls(torch.neg, Calls(in_another_thread))(ones())
    assert origins("cos", "sin", "tan", "exp") == [
        ("inner", "forward"),
        ("Calls", "forward"),
        ("", "forward"),
        ("inner", "forward"),
    ]


@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_again_is_of_the_backward_pass(reentrant):
    layers = nn.Sequential(nn.Linear(4, 4, device=DEVICE), nn.Tanh())
    model = Calls(lambda x: checkpoint(layers, x, use_reentrant=reentrant))
    model.layers = layers
    model(ones(requires_grad=True).view(1, 4)).sum().backward()
    assert origins("tanh")[0] == ("layers.1", "forward")
    assert {phase for _, phase in origins("tanh", "addmm")[2:]} == {"backward"}
    ones().exp()
    assert origins("exp") == [("", "forward")]


def test_hooks_belong_to_the_module_whose_hooks_they_are():
    model = Calls(torch.neg, Calls(torch.exp))
    model.inner.register_forward_pre_hook(lambda module, args: args[0].sin())
    model.inner.register_forward_hook(lambda module, args, out: out.cos())
    model(ones())
    assert origins("sin", "exp", "cos") == [("inner", "forward")] * 3


def test_modules_are_known_under_functional_transforms():
    layer = Calls(torch.neg, nn.Linear(4, 4, device=DEVICE))
    weights = dict(layer.named_parameters())
    x = torch.ones(3, 4, device=DEVICE)

    def loss(weights, x):
        return torch.func.functional_call(layer, weights, (x,)).sum()

    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, x)
    assert origins("neg")[0] == ("Calls", "forward")
    x.exp()
    assert origins("exp") == [("", "forward")]


def test_a_closure_of_an_optimizer_calls_modules():
    layer = nn.Linear(4, 1, device=DEVICE)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=1)

    def closure():
        loss = layer(ones()).exp().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    assert origins("exp") == [("LBFGS", "optimizer")]
    assert ("Linear", "forward") in origins("addmv", "addmm", "mv")


def test_the_garbage_collector_passes_over_the_log():
    model, x = Calls(torch.exp), ones()
    model(x)
    gc.collect()
    assert not any(map(gc.is_tracked, machine.log))


BEFORE_AND_AFTER = """
import torch
from torch import nn
made_before = torch.optim.SGD([nn.Parameter(torch.ones(1))])
places = [(nn.Module, "__call__"), (torch.optim.Optimizer, "profile_hook_step"), (torch.optim.SGD, "step")]
def now(): return [getattr(*place) for place in places]
before = now()
import simgpu
assert now() == before
simgpu.enable(2)
after = now()
assert all(map(lambda one, other: one is not other, before, after))
simgpu.enable(3)
assert now() == after
class Own(torch.optim.Optimizer):
    def __init__(self, parameters): super().__init__(parameters, {})
    def step(self): self.param_groups[0]["params"][0].data.neg_()
for kind in (torch.optim.SGD, Own):
    weight = nn.Parameter(torch.ones(1, device="simgpu:0"))
    weight.grad = torch.ones_like(weight)
    kind([weight]).step()
    assert (simgpu.log()[-1].module, simgpu.log()[-1].phase) == (kind.__name__, "optimizer"), simgpu.log()[-1]
"""


def test_pytorch_is_as_it_was_until_there_are_simulated_gpus():
    subprocess.run([sys.executable, "-c", BEFORE_AND_AFTER], check=True)


def test_optimizers_that_have_stepped_are_known_while_they_are_in_use():
    before = simgpu.stepped_optimizers()
    weight = nn.Parameter(torch.ones(4, device=DEVICE))
    weight.grad = torch.ones(4, device=DEVICE)
    optimizer, idle = torch.optim.AdamW([weight]), torch.optim.AdamW([weight])
    optimizer.step()
    new = [one for one in simgpu.stepped_optimizers() if all(one is not old for old in before)]
    assert len(new) == 1
    assert new[0] is optimizer is not idle
    del new, optimizer
    gc.collect()
    assert all(any(one is old for old in before) for one in simgpu.stepped_optimizers())
