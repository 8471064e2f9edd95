"""PyTorch's own database of modules, on a simulated GPU against the CPU: outputs and every gradient.

Each sample builds a module, calls it, and goes backward from the sum of its outputs. Nothing is left out: a sample
that raises on the CPU has to raise on the device too. Attention takes PyTorch's path for devices other than the CPU,
with another order of sums; where that goes beyond PyTorch's tolerance, the result is compared with float64: it may be
16 roundings of the largest element away.
"""

import copy

import pytest
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map_only

import simgpu

pytestmark = pytest.mark.filterwarnings("ignore")  # about how the samples call modules

DEVICE = "simgpu:1"
MANY = {"nn.LinearCrossEntropyLoss": pytest.mark.thorough}  # hundreds of samples
MODULES = [pytest.param(info, id=info.name, marks=MANY.get(info.name, ())) for info in module_db]


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)


def run(module, args, kwargs):
    """Outputs, and the gradients of parameters and inputs, as CPU tensors by name."""
    torch.manual_seed(1)
    outputs = [t for t in tree_leaves(module(*args, **kwargs)) if isinstance(t, torch.Tensor)]
    found = {f"output {i}": t.detach().cpu() for i, t in enumerate(outputs)}
    roots = [t.sum() for t in outputs if t.is_floating_point() and t.requires_grad]
    if roots:
        sum(roots).backward()
    inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
    leaves = [*module.named_parameters(), *((f"input {i}", t) for i, t in enumerate(inputs))]
    found |= {f"gradient of {name}": t.grad.cpu() for name, t in leaves if t.grad is not None}
    return found | {name: t.detach().cpu() for name, t in module.named_buffers()}


def fresh(values, device):
    """The same arguments, as leaves on a device."""
    return tree_map_only(torch.Tensor, lambda t: t.detach().clone().to(device).requires_grad_(t.requires_grad), values)


def in_float64(values):
    def widen(t):
        return (t.detach().double() if t.is_floating_point() else t.detach()).requires_grad_(t.requires_grad)

    return tree_map_only(torch.Tensor, widen, values)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("info", MODULES)
def test_module(info, training):
    torch.manual_seed(0)
    inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    for number, sample in enumerate(inputs):
        torch.manual_seed(0)
        here = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).train(training)
        there = copy.deepcopy(here).to(DEVICE)
        if sample.forward_input is None:
            continue
        arguments = sample.forward_input.args, sample.forward_input.kwargs
        try:
            expected = run(here, *fresh(arguments, "cpu"))
        except Exception as error:  # what PyTorch refuses on the CPU is refused on the device
            with pytest.raises(type(error)):
                run(there, *fresh(arguments, DEVICE))
            continue
        got = run(there, *fresh(arguments, DEVICE))
        assert got.keys() == expected.keys(), f"sample {number}"
        exact = None
        for name, value in expected.items():
            if not torch.allclose(got[name], value, rtol=1.3e-6, atol=1e-5, equal_nan=True):
                exact = exact or run(copy.deepcopy(here).double(), *in_float64(arguments))
                allowed = 16 * torch.finfo(torch.float32).eps * exact[name].abs().max()
                assert (got[name].double() - exact[name]).abs().max() <= allowed, f"sample {number}, {name}"
