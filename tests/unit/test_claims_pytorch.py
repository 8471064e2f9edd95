"""The course's claims about PyTorch, run on PyTorch: on the CPU, on the device `meta`, with gloo, or by its source.

No simulated GPU is asked: all claims run in a process of their own, because simgpu replaces parts of PyTorch in this
one. A claim is a function with the places where it stands; docs/sources.md names it. Claims that need several ranks
are in tests/process_groups/claims.py. PyTorch's behaviour on GPUs is read from its source, so that the test fails
where PyTorch changes. To see one fail:

    python tests/unit/test_claims_pytorch.py RESULTS.json
"""

import copy
import gc
import inspect
import itertools
import json
import mmap
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
import weakref
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torchgen
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.elastic.agent.server.api import SimpleElasticAgent
from torch.distributed.fsdp._fully_shard import _fsdp_collectives, _fsdp_param_group
from torch.nn import functional
from torch.nn.modules._functions import SyncBatchNorm as SyncBatchNormFunction
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel import _functions as data_parallel_functions
from torch.optim import adam as adams
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils import _foreach_utils
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark.utils import timer
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from torch.utils.data import DistributedSampler
from torchvision.models import resnet50
from torchvision.models.resnet import Bottleneck, ResNet

CLAIMS = {}
META = torch.device("meta")
INSTALLED = Path(torch.__file__).parent
DERIVATIVES = Path(torchgen.__file__).parent / "packaged" / "autograd" / "derivatives.yaml"
NATIVE = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"


def claim(*places):
    """A claim, and the cells and explanations that make it."""

    def keep(test):
        CLAIMS[test.__name__] = test
        test.places = places
        return test

    return keep


def alone():
    """A process group of one rank, until the claim ends."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def says(kind, *words):
    """The block raises `kind`, and its message has all these words in this order."""
    return pytest.raises(kind, match="(?s)" + ".*".join(words))


class Operators(TorchDispatchMode):
    """The names of all operators that run, in their order."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__.split(".")[0])
        return func(*args, **(kwargs or {}))


def saved_by(run):
    """The tensors that autograd saves while `run` computes."""
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor, lambda kept: kept):
        result = run()
    return saved, result


def memory(run):
    """The bytes that the CPU's memory grows by in `run`: at its end, and at most."""
    gc.collect()  # what earlier claims have left would be freed in it
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = run()
    changes = [e for e in recorded.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for change in sorted(changes, key=lambda change: change.start_ns()):
        held += change.nbytes()
        most = max(most, held)
    del kept
    return held, most


def graph(node):
    """The names of the nodes behind this one, each once."""
    found, open_nodes = [], [node]
    while open_nodes:
        one = open_nodes.pop()
        if one is not None and one not in found:
            found.append(one)
            open_nodes += [before for before, _ in one.next_functions]
    return [one.name().split("::")[-1] for one in found]


def layers(*widths):
    pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in itertools.pairwise(widths)]
    return nn.Sequential(*[layer for pair in pairs for layer in pair])


def gradients(model):
    return [parameter.grad.clone() for parameter in model.parameters()]


# --- 00: devices ---------------------------------------------------------------------------------------------------


@claim("00: start-made", "01: split-layer-note")
def to_another_device_copies_and_leaves_the_tensor():
    x = torch.ones(3)
    assert (x.to(META).device, x.device) == (META, torch.device("cpu"))


@claim("explanation 00/3", "03: train-forum-error-note")
def to_where_it_is_already_returns_the_tensor_itself():
    x = torch.ones(3)
    assert x.to(x.device) is x
    assert x.to("cpu", torch.float32) is x
    assert x.to(x.device, copy=True) is not x


@claim("explanation 00/1", "01: split-fixed-2-text", "03: train-target")
def operators_refuse_tensors_of_two_devices():
    with says(RuntimeError, "on the expected device"):
        torch.ones(2) + torch.ones(2, device=META)
    with says(RuntimeError, "on the expected device"):
        nn.Linear(4, 4, device=META)(torch.ones(2, 4))
    with says(RuntimeError, "on the expected device"):
        functional.mse_loss(torch.ones(2), torch.ones(2, device=META))


@claim("explanation 00/1", "01: split-fixed-2-text", "05: idle-what-takes", "04: time-events")
def messages_of_gpus_are_in_the_library():
    """On GPUs the messages are others than on `meta`: they are looked for in what is installed."""
    said = [
        b"Expected all tensors to be on the same device, but found at least two devices, ",
        b"different from other tensors on ",
        b"Both events must be completed before calculating elapsed time",
    ]
    names = ("libtorch_cpu.so", "libtorch_cpu.dylib", "torch_cpu.dll")
    [path] = [INSTALLED / "lib" / name for name in names if (INSTALLED / "lib" / name).exists()]
    with path.open("rb") as file:
        library = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        assert [library.find(words) > 0 for words in said] == [True] * 3
    cuda = INSTALLED / "lib" / "libc10_cuda.so"
    if cuda.exists():
        text = cuda.read_bytes()
        assert b"out of memory. Tried to allocate " in text
        assert b"is allocated by PyTorch" in text


@claim("explanation 00/2")
def a_single_number_on_the_cpu_is_taken_along_one_way_only():
    y = torch.ones(3, device=META)
    assert (y + torch.tensor(1.0)).device == META
    with says(RuntimeError, "on the expected device"):
        torch.ones(3) + torch.ones((), device=META)
    with says(RuntimeError, "on the expected device"):
        y + torch.tensor([1.0])


@claim("00: start-number")
def a_tensor_that_is_not_on_the_cpu_is_printed_with_its_device():
    assert "device='meta'" in repr(torch.ones(1, device=META))
    assert "device" not in repr(torch.ones(1))


# --- 01 and 02: layers, hooks, the graph ---------------------------------------------------------------------------


@claim("01: split-layer-note", "explanation 01/1")
def a_layer_moves_in_place():
    layer = nn.Linear(2, 2)
    assert layer.to(META) is layer
    assert layer.weight.device == META


@claim("lab01: lab01-ex1-task")
def a_layer_can_be_made_on_its_device():
    with Operators() as ran:
        nn.Linear(4, 4, device=META)
    assert "_to_copy" not in ran.names


@claim("01: split-model")
def a_relu_has_no_weights_and_computes_where_its_input_is():
    assert not list(nn.ReLU().parameters())
    assert nn.ReLU()(torch.ones(2, device=META)).device == META


@claim("01: split-watch", "02: follow-watch-note", "02: follow-print-note")
def a_forward_hook_gets_input_and_output_and_comes_off():
    layer, calls = nn.Linear(2, 3), []
    handle = layer.register_forward_hook(lambda *given: calls.append(given))
    output = layer(torch.ones(1, 2))
    module, (given,), result = calls[0]
    assert module is layer
    assert given.shape == (1, 2)
    assert result is output
    handle.remove()
    layer(torch.ones(1, 2))
    assert len(calls) == 1
    assert not layer._forward_hooks


@claim("02: follow-watch-note", "02: follow-print-note")
def where_a_layer_raises_the_pre_hook_ran_and_the_hook_only_if_always_called():
    layer, ran = nn.Linear(2, 2), []
    layer.register_forward_pre_hook(lambda *_: ran.append("pre"))
    layer.register_forward_hook(lambda *_: ran.append("hook"))
    layer.register_forward_hook(lambda *_: ran.append("always"), always_call=True)
    with pytest.raises(RuntimeError):
        layer(torch.ones(1, 3))
    assert ran == ["pre", "always"]


@claim("02: follow-watch-note")
def hooks_see_modules_and_no_functions():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.layer(x))

    model, seen = Model(), []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: seen.append(name))
    model(torch.ones(1, 2))
    assert seen == ["layer", ""]


@claim("01: split-watch", "lab04: lab04-ex3-task", "lab06: lab06-ex2-task")
def a_hooks_result_takes_the_place_of_input_or_output():
    layer = nn.Identity()
    pre = layer.register_forward_pre_hook(lambda module, given: given[0] * 2)
    assert layer(torch.ones(1)).item() == 2
    pre.remove()
    after = layer.register_forward_hook(lambda module, given, output: output * 3)
    assert layer(torch.ones(1)).item() == 3
    after.remove()
    layer.register_forward_hook(lambda *_: None)
    assert layer(torch.ones(1)).item() == 1


@claim("lab06: lab06-ex2-task")
def a_pre_hook_with_kwargs_returns_both():
    class Sum(nn.Module):
        def forward(self, x, *, y):
            return x + y

    module = Sum()
    module.register_forward_pre_hook(lambda module, args, kwargs: (args, {"y": kwargs["y"] * 10}), with_kwargs=True)
    assert module(torch.ones(()), y=torch.ones(())).item() == 11


@claim("explanation 01/3", "01: split-dropout", "03: train-parity-note")
def equal_seeds_give_equal_masks_on_two_generators_and_other_second_ones():
    """Each device has a generator. Both with one seed: the first masks are the same, and a second mask is another."""
    first, second = (torch.Generator().manual_seed(7) for _ in range(2))

    def mask(generator):
        return torch.empty(64).bernoulli_(0.5, generator=generator)

    of_first, of_second, next_of_first = mask(first), mask(second), mask(first)
    assert torch.equal(of_first, of_second)
    assert not torch.equal(of_first, next_of_first)


@claim("explanation 01/3", "01: split-dropout")
def manual_seed_gives_all_gpus_one_seed():
    assert "torch.cuda.manual_seed_all(seed)" in inspect.getsource(torch.random._manual_seed_impl)
    source = inspect.getsource(torch.cuda.manual_seed_all)
    assert "torch.cuda.default_generators[i]" in source
    assert "default_generator.manual_seed(seed)" in source


@claim("explanation 02/1", "02: follow-nodes-ask", "lab02: lab02-ex3-task")
def a_copy_leaves_a_node_if_a_gradient_goes_back_over_it():
    assert torch.ones(2).to(META).grad_fn is None
    copied = torch.ones(2, requires_grad=True).to(META)
    assert graph(copied.grad_fn) == ["ToCopyBackward0", "AccumulateGrad"]
    assert torch.ones(2, requires_grad=True).double().grad_fn.name() == "ToCopyBackward0"  # a dtype makes one, too


@claim("02: follow-nodes-note", "02: follow-graph-read")
def the_graph_is_forward_from_its_end():
    output = layers(4, 4)(torch.ones(2, 4))
    names = graph(output.grad_fn)
    assert names[:2] == ["ReluBackward0", "AddmmBackward0"]
    assert sorted(names[2:]) == ["AccumulateGrad", "AccumulateGrad", "TBackward0"]


@claim("02: follow-saved-note", "07: cut-memory")
def relu_and_tanh_save_their_outputs():
    for layer in (nn.ReLU(), nn.Tanh()):
        saved, output = saved_by(lambda layer=layer: layer(torch.ones(5, requires_grad=True) * 2))
        assert [tensor.data_ptr() for tensor in saved if tensor.dim()][-1] == output.data_ptr()
    text = DERIVATIVES.read_text()
    assert "- name: relu(Tensor self) -> Tensor\n  self: threshold_backward(grad, result, 0)" in text
    assert "- name: tanh(Tensor self) -> Tensor\n  self: tanh_backward(grad, result)" in text


@claim("explanation 02/2")
def a_weight_is_kept_only_if_the_input_needs_a_gradient_and_is_no_copy():
    layer, x = nn.Linear(4, 3), torch.ones(2, 4)
    for wanted in (False, True):
        saved, _ = saved_by(lambda wanted=wanted: layer(x.clone().requires_grad_(wanted)))
        kept = {tensor.untyped_storage().data_ptr() for tensor in saved}
        assert (layer.weight.untyped_storage().data_ptr() in kept) == wanted
        assert len(kept) == 1 + wanted  # the input, and the weight


@claim("07: cut-memory", "02: follow-saved-note")
def two_layers_save_one_tensor():
    x = torch.ones(2, 4, requires_grad=True)
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    saved, _ = saved_by(lambda: model(x))
    places = [tensor.untyped_storage().data_ptr() for tensor in saved]
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    activations = [place for place in places if place not in weights]
    assert len(activations) == 3  # x, the Tanh's output twice
    assert len(set(activations)) == 2


@claim("07: cut-memory")
def a_layer_may_save_nothing_and_may_save_buffers():
    x = torch.ones(2, 4, requires_grad=True)
    assert saved_by(lambda: nn.Flatten()(x))[0] == []
    norm = nn.BatchNorm1d(4).eval()
    saved, _ = saved_by(lambda: norm(x))
    assert norm.running_mean.data_ptr() in {tensor.data_ptr() for tensor in saved}


@claim("explanation 02/2")
def a_layer_whose_input_needs_a_gradient_multiplies_twice_backward():
    for wanted, products in ((False, 1), (True, 2)):
        output = nn.Linear(4, 4)(torch.ones(2, 4, requires_grad=wanted)).sum()
        with Operators() as ran:
            output.backward()
        assert ran.names.count("mm") == products


@claim("02: follow-saved")
def a_gradient_has_the_device_of_its_parameter():
    layer = nn.Linear(4, 4, device=META)
    layer(torch.ones(2, 4, device=META)).sum().backward()
    assert {parameter.grad.device for parameter in layer.parameters()} == {META}


@claim("explanation 02/3")
def a_gradient_has_shape_and_dtype_of_what_it_belongs_to():
    x = torch.ones(3, 5, dtype=torch.float16, requires_grad=True)
    x.sum().backward()
    assert (x.grad.shape, x.grad.dtype) == (x.shape, x.dtype)


@claim("02: follow-peer", "lab02: lab02-ex5-task")
def a_detach_cuts_silently_and_the_rest_learns():
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    before = copy.deepcopy(first.weight), copy.deepcopy(second.weight)
    second(first(torch.ones(2, 4)).detach()).square().sum().backward()
    optimizer.step()
    assert first.weight.grad is None
    assert torch.equal(first.weight, before[0])
    assert not torch.equal(second.weight, before[1])


@claim("02: follow-task", "lab01: lab01-ex4-task")
def a_buffer_moves_with_the_module_and_gets_no_gradient():
    module = nn.Linear(2, 2)
    module.register_buffer("scale", torch.ones(2))
    module.register_buffer("unsaved", torch.ones(2), persistent=False)
    assert not module.scale.requires_grad
    assert "scale" in module.state_dict()
    assert "unsaved" not in module.state_dict()
    assert "scale" not in dict(module.named_parameters())
    assert module.to(META).scale.device == META
    assert module.unsaved.device == META


@claim("02: follow-bridge-task")
def a_function_keeps_on_ctx_and_returns_a_gradient_for_each_argument():
    class Move(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, device):
            ctx.home = x.device
            return x.to(device)

        @staticmethod
        def backward(ctx, gradient):
            return torch.ones(gradient.shape, device=ctx.home), *(None for _ in range(Move.others))

    x = torch.ones(2, requires_grad=True)
    Move.others = 1
    Move.apply(x, META).sum().backward()
    assert x.grad.device == x.device
    Move.others = 0
    with says(RuntimeError, r"incorrect number of gradients \(expected 2, got 1\)"):
        Move.apply(x, META).sum().backward()


@claim("04: time-perfetto")
def the_profiler_writes_chromes_format_and_a_linear_layer_is_addmm():
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        nn.Linear(4, 4)(torch.ones(2, 4))
    assert "aten::addmm" in {event.key for event in recorded.key_averages()}
    path = Path(tempfile.mkdtemp()) / "trace.json"
    recorded.export_chrome_trace(str(path))
    assert "aten::addmm" in {event.get("name") for event in json.loads(path.read_text())["traceEvents"]}
    shutil.rmtree(path.parent)


@claim("lab01: lab01-ex5-task")
def a_slice_of_a_sequential_keeps_the_names_of_its_layers():
    model = layers(2, 2, 2)
    assert list(model[2:].state_dict()) == ["2.weight", "2.bias"]


# --- 03: training --------------------------------------------------------------------------------------------------


@claim("03: train-cnn")
def a_linear_layer_refuses_another_number_of_inputs():
    with says(RuntimeError, r"\(8x16384 and 4096x10\)"):
        nn.Linear(4096, 10)(torch.ones(8, 16384))


@claim("03: train-cnn-shape-note", "lab03: lab03-ex2-task", "09: right-batchnorm", "06: resnet-compare-note")
def batchnorm_moves_its_statistics_in_training_mode_only():
    norm, x = nn.BatchNorm1d(3), torch.randn(8, 3)
    norm.eval()(x)
    assert norm.running_mean.tolist() == [0, 0, 0]
    output = norm.train()(x)
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var(0))
    torch.testing.assert_close(output, (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt())


@claim("03: train-cnn-shape-note", "lab03: lab03-ex2-task")
def batchnorm_refuses_one_value_a_channel():
    with says(ValueError, "Expected more than 1 value per channel when training"):
        nn.BatchNorm2d(3)(torch.ones(1, 3, 1, 1))
    nn.BatchNorm2d(3)(torch.ones(1, 3, 2, 2))
    nn.BatchNorm2d(3).eval()(torch.ones(1, 3, 1, 1))


@claim("03: train-parity")
def one_optimizer_holds_parameters_of_two_devices():
    for foreach in (False, True):
        parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(2, device=META))]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        torch.optim.Adam(parameters, foreach=foreach).step()
        assert parameters[0][0].item() < 1


def trained(kind, one_for_each, clip):
    torch.manual_seed(3)
    model, x = layers(4, 4, 4), torch.randn(8, 4)
    groups = [list(layer.parameters()) for layer in model if list(layer.parameters())]
    groups = groups if one_for_each else [list(model.parameters())]
    optimizers = [kind(group, lr=0.1) for group in groups]
    for _ in range(3):
        model.zero_grad()
        model(x).square().mean().backward()
        for group in groups if clip else ():
            nn.utils.clip_grad_norm_(group, 1e-3)
        for optimizer in optimizers:
            optimizer.step()
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@claim("explanation 03/2")
def sgd_and_adam_treat_each_parameter_by_itself_and_clipping_does_not():
    for kind in (torch.optim.SGD, torch.optim.Adam):
        assert torch.equal(trained(kind, False, False), trained(kind, True, False))
    assert not torch.equal(trained(torch.optim.SGD, False, True), trained(torch.optim.SGD, True, True))


@claim("03: train-steps")
def an_optimizer_for_one_device_goes_through_its_parameters_in_order():
    parameters = [nn.Parameter(torch.zeros(size)) for size in (2, 3, 4)]
    for given in (parameters, parameters[::-1]):
        updated = []

        class Sizes(TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None, updated=updated):
                if func.__name__.startswith("addcdiv_"):
                    updated.append(args[0].numel())
                return func(*args, **(kwargs or {}))

        for parameter in given:
            parameter.grad = torch.ones_like(parameter)
        optimizer = torch.optim.Adam(given, foreach=False)
        with Sizes():
            optimizer.step()
        assert updated == [parameter.numel() for parameter in given]


@claim("03: train-steps")
def a_foreach_optimizer_takes_device_by_device_and_its_source_promises_no_order():
    """Groups come from a table in C++ without an order: which device is first is not that of the parameters."""
    tensors = [torch.zeros(1), torch.zeros(1, device=META), torch.zeros(2), torch.zeros(2, device=META)]
    groups = torch.optim.Optimizer._group_tensors_by_device_and_dtype([tensors], True)
    places = {device.type: indices for (device, _), (_, indices) in groups.items()}
    assert places == {"cpu": [0, 2], "meta": [1, 3]}
    assert "_group_tensors_by_device_and_dtype" in inspect.getsource(adams._multi_tensor_adam)
    header = (INSTALLED / "include" / "ATen" / "native" / "ForeachUtils.h").read_text()
    assert "using FlatMap = std::unordered_map<" in header


@claim("03: train-two", "02: follow-peer")
def an_optimizer_skips_a_parameter_without_a_gradient():
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW):
        parameter = nn.Parameter(torch.ones(2))
        kind([parameter], lr=1.0, weight_decay=0.5).step()
        assert parameter.tolist() == [1, 1]


@claim("03: train-two")
def one_optimizer_can_have_several_learning_rates():
    a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    a.grad = b.grad = torch.ones(1)
    torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.25).step()
    assert (a.item(), b.item()) == (0.75, 0.5)


@claim("lab03: lab03-ex1-task", "explanation 03/2")
def clip_grad_norm_looks_at_all_gradients_at_once_and_returns_the_norm_before():
    parameters = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    for parameter, value in zip(parameters, (3.0, 4.0), strict=True):
        parameter.grad = torch.tensor([value])
    assert nn.utils.clip_grad_norm_(parameters, 10.0).item() == 5
    assert [parameter.grad.item() for parameter in parameters] == [3, 4]
    assert nn.utils.clip_grad_norm_(parameters, 1.0).item() == 5
    torch.testing.assert_close(torch.cat([p.grad for p in parameters]), torch.tensor([0.6, 0.8]), rtol=0, atol=1e-6)


@claim("lab03: lab03-ex2-task")
def a_lazy_layer_finds_out_how_many_inputs_it_has():
    layer = nn.LazyLinear(5)
    layer(torch.ones(2, 7))
    assert layer.weight.shape == (5, 7)


@claim("03: train-steps", "11: copies-dp", "explanation 11/2")
def data_parallel_sends_all_weights_in_each_forward_and_one_node_adds_up():
    source = inspect.getsource(nn.DataParallel.forward)
    moves = ["self.scatter(", "self.replicate(", "self.parallel_apply(", "self.gather("]
    assert sorted(moves, key=source.index) == moves
    assert "ReduceAddCoalesced.apply" in inspect.getsource(data_parallel_functions.Broadcast.backward)


# --- 04: time ------------------------------------------------------------------------------------------------------


@claim("04: time-handout")
def synchronize_without_a_device_means_the_current_one():
    assert inspect.signature(torch.cuda.synchronize).parameters["device"].default is None
    source = inspect.getsource(torch.cuda.synchronize)
    assert "with torch.cuda.device(device):" in source
    assert "uses the current device" in torch.cuda.synchronize.__doc__


@claim("04: time-more-runs-note")
def pytorchs_timer_warms_up_and_waits_for_the_current_device():
    assert "torch.accelerator.synchronize()" in inspect.getsource(timer.timer)
    assert inspect.signature(torch.accelerator.synchronize).parameters["device"].default is None
    assert "# Warmup" in inspect.getsource(timer.Timer.timeit)


@claim("explanation 04/1")
def the_shape_of_nonzero_depends_on_values():
    assert torch.nonzero(torch.tensor([0, 1, 1])).shape == (2, 1)
    assert torch.ones(3)[torch.tensor([True, False, True])].shape == (2,)
    with says(RuntimeError, "meta"):
        torch.ones(3, device=META)[torch.ones(3, device=META, dtype=torch.bool)].sum().item()


@claim("04: time-waits-note")
def the_debug_mode_of_synchronisation_is_experimental():
    assert "experimental" in torch.cuda.set_sync_debug_mode.__doc__


# --- 05: memory ----------------------------------------------------------------------------------------------------


@claim("05: idle-what-takes", "lab05: lab05-ex3-task", "explanation 12/1")
def optimizers_keep_so_many_tensors_for_each_parameter():
    kinds = {
        0: lambda p: torch.optim.SGD(p, lr=0.1),
        1: lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        2: torch.optim.Adam,
    }
    for tensors, kind in kinds.items():
        parameter = nn.Parameter(torch.ones(16))
        parameter.grad = torch.ones(16)
        optimizer = kind([parameter])
        assert not optimizer.state[parameter]
        optimizer.step()
        kept = [value for value in optimizer.state[parameter].values() if torch.is_tensor(value) and value.numel() > 1]
        assert len(kept) == tensors  # from the first step on


def room_for_adam(layers, **options):
    """The bytes that a step of Adam needs for a moment, as a share of one layer's weights."""
    parameters = [nn.Parameter(torch.ones(1 << 16)) for _ in range(layers)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.Adam(parameters, **options)
    optimizer.step()
    _, most = memory(optimizer.step)
    return most / (4 << 16)


@claim("05: idle-four-times-note", "lab05: lab05-ex3-task", "12: shards-fsdp")
def foreach_adam_needs_room_for_all_weights_at_once_and_the_loop_for_one_layer():
    assert [round(room_for_adam(layers, foreach=True), 1) for layers in (4, 8)] == [4, 8]
    one, other = (room_for_adam(layers, foreach=False) for layers in (4, 8))
    assert one == pytest.approx(other, rel=0.01)
    assert one < 4
    assert "foreach_supported_devices" in inspect.getsource(adams._default_to_fused_or_foreach)  # so it is taken there
    assert "cuda" in _foreach_utils._get_foreach_kernels_supported_devices()


@claim("05: idle-what-takes")
def zero_grad_drops_the_gradients_unless_told_to_keep_them():
    parameter = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    assert inspect.signature(optimizer.zero_grad).parameters["set_to_none"].default is True
    parameter.grad = torch.ones(2)
    optimizer.zero_grad(set_to_none=False)
    assert parameter.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert parameter.grad is None


@claim("05: idle-what-takes")
def a_traceback_keeps_the_tensors_of_what_failed():
    def fails():
        large = torch.ones(4)
        fails.seen = weakref.ref(large)
        raise RuntimeError("out of memory, say")

    try:
        fails()
    except RuntimeError as error:
        kept = error
    gc.collect()
    assert fails.seen() is not None
    del kept
    gc.collect()
    assert fails.seen() is None


@claim("lab05: lab05-ex3-try", "simgpu.md")
def memory_comes_in_blocks_of_512_bytes():
    header = (INSTALLED / "include" / "c10" / "core" / "AllocatorConfig.h").read_text()
    assert "constexpr size_t kMinBlockSize = 512;" in header


@claim("lab05: lab05-ex4-task")
def a_post_accumulate_hook_finds_the_gradient_in_place_and_register_hook_does_not():
    parameter, seen = nn.Parameter(torch.ones(1)), {}
    parameter.register_hook(lambda gradient: seen.update(hook=parameter.grad))
    parameter.register_post_accumulate_grad_hook(lambda p: seen.update(post=p.grad.item()))
    (parameter * 3).backward()
    assert seen == {"hook": None, "post": 3}
    with says(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient"):
        torch.ones(1).register_post_accumulate_grad_hook(print)


@claim("lab05: lab05-ex4-try")
def a_parameter_and_a_hook_that_knows_it_keep_each_other():
    def made():
        parameter = nn.Parameter(torch.ones(1))
        parameter.register_post_accumulate_grad_hook(lambda _: parameter)
        return weakref.ref(parameter)

    parameter = made()
    gc.collect()
    assert parameter() is not None


@claim("05: idle-imports-note")
def bmm_is_one_operator():
    with Operators() as ran:
        torch.bmm(torch.ones(4, 2, 2), torch.ones(4, 2, 2))
    assert ran.names.count("bmm") == 1


# --- 06 and 07: models that somebody else wrote --------------------------------------------------------------------


@claim("06: resnet-source-note", "06: resnet-inherit", "09: right-batchnorm")
def a_resnet50_is_made_of_bottlenecks_and_has_53_batchnorms():
    with META:
        model, same = resnet50(), ResNet(Bottleneck, [3, 4, 6, 3])
    assert {name: p.shape for name, p in model.named_parameters()} == {n: p.shape for n, p in same.named_parameters()}
    assert len(list(model.children())) == 10
    assert [len(getattr(model, f"layer{i}")) for i in (1, 2, 3, 4)] == [3, 4, 6, 3]
    assert sum(isinstance(module, nn.BatchNorm2d) for module in model.modules()) == 53


@claim("explanation 06/1")
def an_attribute_is_a_second_name_in_the_state_dict():
    model = nn.Module()
    model.conv1 = nn.Linear(2, 2)
    checkpoint_of_whole = model.state_dict()
    model.seq1 = nn.Sequential(model.conv1)
    assert set(model.state_dict()) == {"conv1.weight", "conv1.bias", "seq1.0.weight", "seq1.0.bias"}
    with says(RuntimeError, "Missing key", "seq1.0.weight"):
        model.load_state_dict(checkpoint_of_whole)


@claim("lab06: lab06-ex4-task")
def an_inplace_relu_overwrites_what_it_is_given():
    x = torch.tensor([-1.0, 1.0])
    nn.ReLU(inplace=True)(x)
    assert x.tolist() == [0, 1]


@claim("lab07: lab07-ex1-task")
def dropout_keeps_four_bytes_a_number_on_the_cpu_and_cudas_operator_one():
    saved, _ = saved_by(lambda: nn.Dropout(0.5)(torch.ones(8, requires_grad=True)))
    assert {tensor.dtype for tensor in saved} == {torch.float32}
    assert torch.native_dropout(torch.ones(8), 0.5, True)[1].dtype == torch.bool


@claim("07: cut-tied-note", "lab07: lab07-ex4-task")
def a_shared_parameter_is_one_follows_each_move_and_sums_both_uses():
    embed, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    head.weight = embed.weight
    model = nn.ModuleDict({"embed": embed, "head": head})
    assert [name for name, _ in model.named_parameters()] == ["embed.weight"]
    assert len(model.state_dict()) == 2
    head.double()  # as .to(a GPU) does: the parameter stays, its numbers are others
    assert embed.weight is head.weight
    assert embed.weight.dtype == torch.float64
    head(embed(torch.tensor([2]))).sum().backward()
    both = embed.weight.grad.clone()
    embed.weight.grad = None
    head(embed(torch.tensor([2])).detach()).sum().backward()
    assert not torch.equal(both, embed.weight.grad)


@claim("07: cut-tables-raises")
def arguments_are_not_moved_with_x():
    block = nn.Linear(2, 2, device=META)
    with says(RuntimeError, "on the expected device"):
        block(torch.ones(1, 2, device=META)) * torch.ones(1, 2)


# --- 08 to 10: pieces of a batch, pieces of a graph ----------------------------------------------------------------


class Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, name, order):
        ctx.name, ctx.order = name, order
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.order.append(ctx.name)
        return gradient, None, None


@claim("08: pipe-backward", "explanation 08/2")
def backward_takes_the_newest_first():
    order, x = [], torch.ones(4, 1, requires_grad=True)
    outputs = [Noted.apply(rows * 2, number, order) for number, rows in enumerate(x.split(1))]
    torch.cat(outputs).sum().backward()
    assert order == [3, 2, 1, 0]


@claim("08: pipe-task", "lab08: lab08-ex1-task")
def split_leaves_what_is_left_and_tensor_split_evens_out():
    assert [len(rows) for rows in torch.ones(10, 1).split(4)] == [4, 4, 2]
    assert [len(rows) for rows in torch.ones(10, 1).tensor_split(4)] == [3, 3, 2, 2]


@claim("08: pipe-accumulate", "explanation 08/3")
def backward_frees_the_saved_tensors():
    kept = weakref.WeakSet()

    def pack(tensor):
        same = tensor.detach()
        kept.add(same)
        return same

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda same: same):
        loss = layers(4, 4, 4)(torch.ones(2, 4)).sum()
    assert len(kept) > 3
    loss.backward()
    assert len(kept) == 0


@claim("09: right-loss-note")
def a_mean_of_means_is_not_the_mean_and_shares_mend_it():
    model, x = nn.Linear(3, 1), torch.randn(10, 3)

    def gradient(weigh):
        model.zero_grad()
        for rows in x.split(4):
            (model(rows).square().mean() * weigh(rows)).backward()
        return model.weight.grad.clone()

    model(x).square().mean().backward()
    whole = model.weight.grad.clone()
    torch.testing.assert_close(gradient(lambda rows: len(rows) / 10), whole)
    assert ((gradient(lambda rows: 1 / 3) - whole).norm() / whole.norm()).item() > 0.1


@claim("lab09: lab09-ex4-task")
def cross_entropy_leaves_out_ignored_targets_and_is_nan_where_none_counts():
    scores, classes = torch.randn(4, 3), torch.tensor([0, 2, -100, -100])
    torch.testing.assert_close(
        functional.cross_entropy(scores, classes, ignore_index=-100), functional.cross_entropy(scores[:2], classes[:2])
    )
    assert functional.cross_entropy(scores[2:], classes[2:], ignore_index=-100).isnan()


@claim("explanation 09/1", "09: right-batchnorm-note")
def groupnorm_does_not_see_micro_batches_and_batchnorm_does():
    x = torch.randn(8, 4, 3, 3)
    for norm, same in ((nn.GroupNorm(2, 4), True), (nn.BatchNorm2d(4), False), (nn.BatchNorm2d(4).eval(), True)):
        assert torch.allclose(norm(x), torch.cat([norm(rows) for rows in x.split(2)]), atol=1e-6) == same
    once, often = nn.BatchNorm2d(4), nn.BatchNorm2d(4)
    once(x)
    for rows in x.split(2):
        often(rows)
    assert (once.num_batches_tracked.item(), often.num_batches_tracked.item()) == (1, 4)
    assert nn.GroupNorm(2, 4).eps == nn.BatchNorm2d(4).eps


@claim("09: right-streams-note", "simgpu.md")
def a_node_of_the_graph_has_one_stream():
    header = (INSTALLED / "include" / "torch" / "csrc" / "autograd" / "node.h").read_text()
    assert "A function's stream (for a given device type) is the stream of the first\n" in header
    assert "std::optional<c10::Stream> stream() {" in header


@claim("lab09: lab09-ex5-task", "lab09: lab09-ex1-task")
def a_checkpoint_draws_the_same_random_numbers_again_and_keeps_inputs_only():
    part, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Tanh()), torch.randn(4, 8)
    torch.manual_seed(5)
    part(x).sum().backward()
    expected = gradients(part)
    part.zero_grad()
    torch.manual_seed(5)
    saved, output = saved_by(lambda: checkpoint(part, x, use_reentrant=False))
    torch.rand(100)  # other numbers are drawn before backward
    output.sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(gradients(part), expected, strict=True))
    assert inspect.signature(checkpoint).parameters["preserve_rng_state"].default is True
    assert [tensor.data_ptr() for tensor in saved] == [x.data_ptr()]


@claim("lab15: lab15-ex2-task")
def a_linear_layer_saves_a_view_of_its_weight_and_a_view_keeps_its_storage():
    x, layer = torch.randn(3, 20, 8, requires_grad=True), nn.Linear(8, 4)
    normed = nn.LayerNorm(8, elementwise_affine=False)(x)
    saved, _ = saved_by(lambda: layer(normed[:, -1]))
    whole, weight = (tensor.untyped_storage().data_ptr() for tensor in (normed, layer.weight))
    assert {tensor.untyped_storage().data_ptr() for tensor in saved} == {whole, weight}
    assert not [tensor for tensor in saved if tensor is layer.weight]
    assert [t.untyped_storage().nbytes() for t in saved if t.untyped_storage().data_ptr() == whole] == [normed.nbytes]


@claim("lab15: lab15-ex2-task")
def a_pack_hook_that_returns_no_tensor_keeps_no_memory():
    def alive(pack):
        seen = weakref.WeakSet()
        model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)), torch.randn(2, 4)
        model[1].register_forward_hook(lambda module, inputs, output: seen.add(output))
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
            output = model(x)
        return len(seen), output

    assert alive(lambda tensor: tensor)[0] == 1
    assert alive(lambda tensor: tensor.nbytes)[0] == 0


@claim("lab15: lab15-ex3-task")
def a_policy_says_which_operators_run_again_and_contexts_serve_one_block():
    def policy(context, operator, *args, **kwargs):
        saves = str(operator) == "aten.mm.default"
        return CheckpointPolicy.MUST_SAVE if saves else CheckpointPolicy.PREFER_RECOMPUTE

    part = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Tanh(), nn.Linear(4, 4, bias=False), nn.Tanh())
    x = torch.randn(2, 4, requires_grad=True)
    fresh = partial(create_selective_checkpoint_contexts, policy)
    output = checkpoint(part, x, use_reentrant=False, context_fn=fresh)
    with Operators() as ran:
        output.sum().backward()
    assert ran.names.count("tanh") == 2
    assert ran.names.count("mm") == 4, "those of the backward pass"
    once = fresh()
    first = checkpoint(part, x, use_reentrant=False, context_fn=lambda: once)
    second = checkpoint(part, x, use_reentrant=False, context_fn=lambda: once)
    first.sum().backward()
    with pytest.raises(RuntimeError, match="only allowed to backward once"):
        second.sum().backward()


@claim("lab15: lab15-ex4-task")
def a_scaler_skips_a_step_that_overflows_and_halves_its_scale():
    model, x = nn.Linear(4, 3), torch.randn(6, 4)
    optimizer, scaler = torch.optim.SGD(model.parameters(), 0.1), torch.amp.GradScaler("cpu", init_scale=2.0**40)
    before = model.weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.float16):
        logits = model(x)
        loss = functional.cross_entropy(logits, torch.zeros(6, dtype=torch.long))
    assert (logits.dtype, loss.dtype, model.weight.dtype) == (torch.float16, torch.float32, torch.float32)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    assert not model.weight.grad.isfinite().all()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight, before)
    assert scaler.get_scale() == 2.0**39
    assert torch.tensor(1e-8).half() == 0
    assert torch.tensor(1e-8).bfloat16() > 0
    assert torch.tensor(1e5).half().isinf()


@claim("lab09: lab09-ex5-task")
def a_reentrant_checkpoint_of_data_without_a_gradient_gets_none():
    part = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        output = checkpoint(part, torch.ones(1, 2), use_reentrant=True)
    assert not output.requires_grad


@claim("10: sched-cut")
def a_detached_tensor_has_the_same_numbers_and_nothing_behind_it_gets_a_gradient():
    part0, part1 = nn.Linear(2, 2), nn.Linear(2, 2)
    hidden = part0(torch.ones(1, 2))
    received = hidden.detach().requires_grad_()
    assert received.data_ptr() == hidden.data_ptr()
    assert received.grad_fn is None
    part1(received).sum().backward()
    assert part0.weight.grad is None
    assert received.grad.shape == hidden.shape
    hidden.backward(received.grad)
    mine = part0.weight.grad.clone()
    part0.zero_grad()
    part1(part0(torch.ones(1, 2))).sum().backward()
    assert torch.equal(mine, part0.weight.grad)


@claim("10: sched-cut")
def only_a_scalar_needs_no_gradient_to_begin_with():
    with says(RuntimeError, "grad can be implicitly created only for scalar outputs"):
        (torch.ones(2, requires_grad=True) * 2).backward()


@claim("10: sched-cut")
def a_second_backward_pass_raises_unless_the_graph_is_retained():
    x = torch.ones(2, requires_grad=True)
    loss = x.square().sum()
    loss.backward(retain_graph=True)
    loss.backward()
    with says(RuntimeError, "Trying to backward through the graph a second time", "retain_graph=True"):
        loss.backward()


@claim("12: shards-task", "11: copies-make")
def without_grad_no_graph_is_built_and_a_leaf_may_be_written():
    parameter = nn.Parameter(torch.ones(2))
    with says(RuntimeError, "a leaf Variable that requires grad is being used in an in-place operation"):
        parameter.add_(1)
    for off in (torch.no_grad(), torch.set_grad_enabled(False)):
        with off:
            parameter.add_(1)
            assert not (parameter * 2).requires_grad
    assert torch.is_grad_enabled()


# --- 11: copies of a model -----------------------------------------------------------------------------------------


@claim("11: copies-visible")
def the_argument_is_device_ids_and_there_is_no_model_parallel_class():
    with says(TypeError, "unexpected keyword argument 'gpu_ids'"):
        nn.DataParallel(nn.Linear(2, 2), gpu_ids=[0])
    assert "device_ids" in inspect.signature(nn.DataParallel).parameters
    assert not [name for name in dir(nn) + dir(nn.parallel) if name.lower().replace("_", "") == "modelparallel"]


@claim("11: copies-dp-note")
def pytorch_advises_ddp_in_place_of_data_parallel():
    words = " ".join(nn.DataParallel.__doc__.split())
    assert (
        "It is recommended to use :class:`~torch.nn.parallel.DistributedDataParallel`, instead of this class" in words
    )
    assert "even if there is only a single node" in words


@contextmanager
def ddp(model, seen=None, **options):
    """The model in DDP on one rank. `seen` gets the tensor of each bucket of a step."""
    alone()
    wrapped = DistributedDataParallel(model, **options)

    def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        seen.append((bucket.buffer().untyped_storage(), [p.numel() for p in bucket.parameters()]))
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    if seen is not None:
        wrapped.register_comm_hook(None, hook)
    yield wrapped
    dist.destroy_process_group()


@claim("lab11: lab11-ex4-try", "11: copies-ddp-note")
def gradients_are_views_of_buckets_only_if_asked_for():
    assert inspect.signature(DistributedDataParallel.__init__).parameters["gradient_as_bucket_view"].default is False
    for view in (False, True):
        with ddp(layers(8, 8, 8), gradient_as_bucket_view=view) as model:
            for _ in range(2):
                model.zero_grad()
                model(torch.ones(2, 8)).sum().backward()
            assert {parameter.grad._base is not None for parameter in model.parameters()} == {view}


@claim("12: shards-full-run", "explanation 12/1", "12: shards-end")
def ddps_buckets_are_memory_too():
    """Bytes a parameter that stay: weights, gradients, Adam, and buckets unless the gradients are views of them."""
    for view, expected in ((False, 20.0), (True, 16.0)):
        model, seen = layers(64, 64, 64, 64), []
        with ddp(model, seen, gradient_as_bucket_view=view) as wrapped:
            optimizer = torch.optim.Adam(model.parameters())
            for _ in range(3):
                optimizer.zero_grad()
                seen.clear()
                wrapped(torch.ones(2, 64)).square().mean().backward()
                optimizer.step()
            held = {storage.data_ptr(): storage.nbytes() for storage, _ in seen}
            for parameter in model.parameters():
                moments = [value for name, value in optimizer.state[parameter].items() if name != "step"]
                for tensor in (parameter, parameter.grad, *moments):
                    held[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        assert sum(held.values()) / sum(p.numel() for p in model.parameters()) == expected


@claim("12: shards-full-run")
def ddp_holds_its_buckets_between_steps_and_foreach_adam_adds_the_peak():
    for view, expected in ((False, (20.0, 24.0)), (True, (16.0, 20.0))):
        width = 512

        def three_steps(view=view, width=width):
            model = nn.Sequential(*[nn.Linear(width, width, bias=False) for _ in range(4)])
            with ddp(model, gradient_as_bucket_view=view) as wrapped:
                optimizer = torch.optim.Adam(wrapped.parameters(), foreach=True)
                for _ in range(3):
                    optimizer.zero_grad()
                    wrapped(torch.ones(2, width)).square().mean().backward()
                    optimizer.step()
            return wrapped, optimizer

        # On a busy machine gloo's thread may free a bucket after the profile has ended: the least of a few is DDP's.
        found = min(memory(three_steps) for _ in range(4))
        assert [number / (4 * width * width) for number in found] == pytest.approx(expected, rel=0.01)


@claim("11: copies-ddp-note", "lab11: lab11-ex3-try")
def buckets_are_25_mib_and_the_first_1_mib_where_no_size_is_given():
    assert "of 25 MiB" in inspect.getsource(sys.modules["torch.nn.parallel.distributed"])
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == 1 << 20
    with ddp(layers(8, 8)) as model:
        assert model.bucket_bytes_cap == 25 << 20
        assert model._bucket_config.first_bucket_bytes_cap == 1 << 20
    with ddp(layers(8, 8), bucket_cap_mb=8) as model:
        assert model._bucket_config.first_bucket_bytes_cap == 8 << 20


@claim("11: copies-ddp-run")
def ddp_has_one_bucket_in_the_first_step_and_then_buckets_in_the_order_in_which_gradients_came():
    class Crossed(nn.Module):
        """Its first parameter is used last."""

        def __init__(self):
            super().__init__()
            self.last, self.first = nn.Linear(256, 300, bias=False), nn.Linear(256, 256, bias=False)

        def forward(self, x):
            return self.last(self.first(x))

    for model, order in ((layers(256, 256, 300), None), (Crossed(), [300 * 256, 256 * 256])):
        seen = []
        with ddp(model, seen, bucket_cap_mb=0.01) as wrapped:
            buckets = []
            for _ in range(3):
                seen.clear()
                wrapped.zero_grad()
                wrapped(torch.ones(2, 256)).sum().backward()
                buckets.append([sizes for _, sizes in seen])
        assert len(buckets[0]) == 1
        assert len(buckets[2]) > 1
        sizes = [size for bucket in buckets[2] for size in bucket]
        expected = order or [300 * 256, 300, 256 * 256, 256]
        assert sorted(sizes[:2]) == sorted(expected[:2])
        assert sorted(sizes[2:]) == sorted(expected[2:])


@claim("11: copies-uneven-note", "11: copies-ddp")
def without_sync_ddp_sends_nothing():
    seen = []
    with ddp(layers(4, 4), seen) as model:
        with model.no_sync():
            model(torch.ones(1, 4)).sum().backward()
        assert seen == []
        model(torch.ones(1, 4)).sum().backward()
        assert len(seen) == 1


class HalfUsed(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x)


@claim("11: copies-ddp")
def ddp_raises_in_the_next_step_for_an_unused_parameter_unless_it_looks_for_them():
    with ddp(HalfUsed()) as model:
        model(torch.ones(1, 2)).sum().backward()
        with says(RuntimeError, "Expected to have finished reduction in the prior iteration", "find_unused_parameters"):
            model(torch.ones(1, 2))
    with ddp(HalfUsed(), find_unused_parameters=True) as model:
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()


# Lesson 11's model and data, in four shares.
def with_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 1))


def loss_with(statistics):
    """The mean loss of the four shares, where `statistics` makes mean and variance for all of what each share has."""
    torch.manual_seed(1)
    x, y = torch.randn(64, 16), torch.randn(64, 1)
    model = with_norm()
    shares = [model[0](share) for share in x.chunk(4)]
    of_each = [torch.ops.aten.native_batch_norm(s, None, None, None, None, True, 0.0, 1e-5)[1:] for s in shares]
    mean, var = statistics([(len(s), m, invstd) for s, (m, invstd) in zip(shares, of_each, strict=True)])
    norm, losses = model[1], []
    for share, target in zip(shares, y.chunk(4), strict=True):
        out = functional.batch_norm(share, mean, var, norm.weight, norm.bias, training=False, eps=1e-5)
        losses.append(functional.mse_loss(model[2:](out), target))
    whole = functional.mse_loss(with_norm()(x), y).item()
    return torch.stack(losses).mean().item(), whole


def combined(parts):
    rows = sum(count for count, _, _ in parts)
    mean = sum(count * m for count, m, _ in parts) / rows
    within = sum(count * (invstd**-2 - 1e-5) for count, _, invstd in parts)
    between = sum(count * (m - mean) ** 2 for count, m, _ in parts)
    return mean, (within + between) / rows


def averaged(parts):
    mean = sum(m for _, m, _ in parts) / len(parts)
    return mean, sum(invstd**-2 - 1e-5 for _, _, invstd in parts) / len(parts)


@claim("11: copies-limits")
def statistics_of_shares_need_the_term_between_them():
    right, whole = loss_with(combined)
    wrong, _ = loss_with(averaged)
    assert right == pytest.approx(whole, abs=1e-6)
    assert f"{whole:.6f} {wrong:.6f}" == "1.120231 1.122669"


@claim("11: copies-limits")
def syncbatchnorm_gathers_mean_invstd_and_count_forward_and_sums_two_gradients_backward():
    forward = inspect.getsource(SyncBatchNormFunction.forward)
    assert "mean, invstd = torch.batch_norm_stats(input, eps)" in forward
    assert "combined = torch.cat([mean, invstd, count], dim=0)" in forward
    assert "dist.all_gather(" in forward
    assert "all_reduce(" not in forward
    assert "torch.batch_norm_gather_stats_with_counts(" in forward
    backward = inspect.getsource(SyncBatchNormFunction.backward)
    assert "combined = torch.cat([sum_dy, sum_dy_xmu], dim=0)" in backward
    assert "all_gather" not in backward.replace("the all_gather", "")
    assert "torch.distributed.all_reduce(\n" in backward


@claim("11: copies-limits")
def syncbatchnorm_wants_a_gpu():
    alone()
    with says(ValueError, "SyncBatchNorm expected input tensor to be on GPU"):
        nn.SyncBatchNorm(3)(torch.ones(2, 3))


@claim("11: copies-uneven-note")
def a_distributed_sampler_repeats_rows_or_drops_them():
    for drop, expected in ((False, [4, 4, 4]), (True, [3, 3, 3])):
        samplers = [DistributedSampler(range(10), 3, rank, shuffle=False, drop_last=drop) for rank in range(3)]
        shares = [list(sampler) for sampler in samplers]
        assert [len(share) for share in shares] == expected
        rows = [row for share in shares for row in share]
        assert len(rows) - len(set(rows)) == (0 if drop else 2)


@claim("11: copies-uneven-note")
def time_outs_are_ten_minutes_with_nccl_and_thirty_with_gloo():
    defaults = dist.distributed_c10d._get_default_timeout
    if dist.is_nccl_available():
        assert defaults("nccl") == timedelta(minutes=10)
    assert defaults("gloo") == timedelta(minutes=30)


@claim("11: copies-uneven-note")
def a_surviving_torchrun_restarts_because_nodes_wait_and_that_is_no_retry():
    source = inspect.getsource(SimpleElasticAgent._invoke_run)
    failed, healthy = source.split("elif state == WorkerState.HEALTHY:")
    assert "self._remaining_restarts -= 1" in failed
    assert "num_nodes_waiting = rdzv_handler.num_nodes_waiting()" in healthy
    assert "if num_nodes_waiting > 0:" in healthy
    assert "self._restart_workers(self._worker_group)" in healthy
    assert "_remaining_restarts -=" not in healthy
    assert "membership changes do not count as retries" in healthy


@claim("11: copies-visible")
def visible_devices_are_read_as_the_table_says():
    read = torch.cuda._parse_visible_devices
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        for value in ("2,0", "GPU-8932f937", ""):
            patch.setenv("CUDA_VISIBLE_DEVICES", value)
            found[value] = read()
    assert found == {"2,0": [2, 0], "GPU-8932f937": ["GPU-8932f937"], "": []}


@claim("explanation 11/3", "lab11: lab11-ex5-task")
def a_new_adam_with_the_old_weights_takes_other_steps():
    torch.manual_seed(4)
    model = nn.Linear(3, 1)
    x = torch.randn(8, 3)

    def step(model, optimizer):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.item()

    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    step(model, adam)
    saved = pickle.dumps((model.state_dict(), adam.state_dict()))
    expected = [step(model, adam) for _ in range(3)]
    found = {}
    for with_state in (True, False):
        weights, state = pickle.loads(saved)
        other = nn.Linear(3, 1)
        other.load_state_dict(weights)
        adam = torch.optim.Adam(other.parameters(), lr=0.1)
        if with_state:
            adam.load_state_dict(state)
        found[with_state] = [step(other, adam) for _ in range(3)]
    assert found[True] == expected
    assert found[False][0] == expected[0]
    assert found[False][2] != expected[2]


# --- 12: shards ----------------------------------------------------------------------------------------------------


class Handle:
    """A device module that writes down which streams are made."""

    def __init__(self):
        self.priorities = []

    def Stream(self, priority=0):
        self.priorities.append(priority)
        return f"stream {len(self.priorities) - 1}"


@claim("12: shards-read", "explanation 12/4")
def fsdp_copies_in_and_gathers_on_streams_of_high_priority():
    handle = Handle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_fsdp_param_group, "_get_device_handle", lambda kind: handle)
        streams = _fsdp_param_group.FSDPCommContext()
        streams.lazy_init(torch.device("cuda"))
    priority = dict(zip((f"stream {i}" for i in range(4)), handle.priorities, strict=True))
    high = (streams.all_gather_copy_in_stream, streams.all_gather_stream, streams.reduce_scatter_stream)
    assert [priority[stream] for stream in high] == [-1, -1, -1]
    assert priority[streams.all_reduce_stream] == 0
    assert len({*high, streams.all_reduce_stream}) == 4


@claim("12: shards-read", "explanation 12/4")
def an_all_gather_waits_for_its_copy_in_and_for_the_copy_out_of_the_layer_before_the_last():
    """So the one of layer i + 1 needs nothing that layer i computes: a rolling prefetch, no pairs."""
    gather = inspect.getsource(_fsdp_collectives.foreach_all_gather)
    steps = [
        "with device_handle.stream(all_gather_copy_in_stream):",
        "all_gather_stream.wait_stream(all_gather_copy_in_stream)",
        "with device_handle.stream(all_gather_stream):",
    ]
    assert sorted(steps, key=gather.index) == steps
    assert gather.count(".wait_") == 1
    wait = inspect.getsource(_fsdp_param_group.FSDPParamGroup.wait_for_unshard)
    steps = [
        "self.comm_ctx.release_all_gather_state_for_comm_reuse()",  # the streams wait for the copy-out of before
        "foreach_all_gather_copy_out(",
        "self.comm_ctx.all_gather_state = AllGatherState(",  # this copy-out is waited for at the next call
    ]
    assert sorted(steps, key=wait.index) == steps
    before = inspect.getsource(_fsdp_param_group.FSDPParamGroup.pre_forward)
    assert before.index("self.unshard(") < before.index("self.wait_for_unshard()")


@claim("12: shards-read", "12: shards-end")
def fsdp_asks_for_the_layer_before_in_the_backward_pass():
    source = inspect.getsource(_fsdp_param_group.FSDPParamGroup.pre_backward)
    steps = ["self.unshard(", "self.wait_for_unshard()", "self._backward_prefetch()"]
    assert sorted(steps, key=source.index) == steps


@claim("12: shards-fsdp")
def a_layer_may_be_freed_between_its_passes():
    model, x = layers(8, 8, 8), torch.randn(2, 8)
    model(x).square().sum().backward()
    expected = gradients(model)
    model.zero_grad()
    numbers = {parameter: parameter.detach().clone() for parameter in model.parameters()}

    def free(layer, *_):
        for parameter in layer.parameters():
            parameter.untyped_storage().resize_(0)

    def gather(layer, *_):
        for parameter in layer.parameters():
            parameter.untyped_storage().resize_(parameter.numel() * parameter.element_size())
            parameter.data.copy_(numbers[parameter])

    for layer in model:
        free(layer)
        layer.register_forward_pre_hook(gather)
        layer.register_forward_hook(free)
        layer.register_full_backward_pre_hook(gather)
    loss = model(x).square().sum()
    assert sum(parameter.untyped_storage().nbytes() for parameter in model.parameters()) == 0
    loss.backward()
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(gradients(model), expected, strict=True))


@claim("lab12: lab12-ex3-task")
def small_updates_are_lost_in_bfloat16():
    assert (torch.tensor(0.25).bfloat16() + 0.0003).item() == 0.25


@claim("12: shards-fsdp")
def a_tensor_on_meta_has_a_shape_and_no_memory():
    held, most = memory(lambda: torch.empty(10**9, device=META))
    assert (held, most) == (0, 0)


# --- 13: several machines ------------------------------------------------------------------------------------------


@claim("13: beyond-hang-real")
def batched_messages_are_started_together_and_no_order_is_looked_for():
    source = inspect.getsource(dist.batch_isend_irecv)
    assert "supports_coalescing" in source
    assert "with _coalescing_manager(group, device, async_ops=True)" in source
    assert "for p2p_op in p2p_op_list:" in source  # as they stand in the list, in both branches
    assert source.count("for p2p_op in p2p_op_list:") == 2
    assert "relative ordering of sends vs. receives in the\n            list does not matter" in source


@claim("13: beyond-start-note")
def a_process_group_without_a_name_takes_the_backend_of_the_device():
    defaults = dist.Backend.default_device_backend_map
    assert defaults["cpu"] == "gloo"
    assert defaults["cuda"] == "nccl"


@claim("13: beyond-links", "lab13: lab13-ex2-task")
def ranks_that_differ_in_the_last_dimension_of_a_mesh_are_neighbours():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    assert mesh.mesh.tolist() == [[0, 1], [2, 3]]
    assert mesh["tensor"].mesh.tolist() == [0, 1]


@claim("explanation 13/1")
def a_failed_worker_ends_all_of_its_agent():
    source = inspect.getsource(SimpleElasticAgent._restart_workers)
    assert source.index("self._stop_workers(worker_group") < source.index("self._initialize_workers(worker_group)")


# --- docs ----------------------------------------------------------------------------------------------------------


@claim("simgpu.md")
def silu_and_mish_have_one_kernel_backward_where_the_backend_has_its_own():
    text = NATIVE.read_text()
    silu = text.split("- func: silu_backward.grad_input(")[1].split("- func:")[0]
    assert "CPU, CUDA, MPS, XPU: silu_backward_out" in silu
    mish = text.split("- func: mish_backward(")[1].split("- func:")[0]
    assert "CPU, CUDA, MPS, XPU: mish_backward" in mish
    assert "CompositeImplicitAutograd: math_mish_backward" in mish


@claim("simgpu.md")
def a_cpu_backward_pass_runs_in_the_calling_thread():
    """(GPUs have a thread each: engine.cpp.)"""
    seen = []

    class Thread(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(threading.get_ident())
            return gradient

    Thread.apply(torch.ones(1, requires_grad=True)).backward()
    assert seen == [threading.get_ident()]


# --- how they run --------------------------------------------------------------------------------------------------


def main(path):
    assert "simgpu" not in sys.modules
    told = {}
    for name, test in CLAIMS.items():
        torch.manual_seed(0)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                test()
            told[name] = ""
        except BaseException:
            told[name] = traceback.format_exc()
        if dist.is_initialized():
            dist.destroy_process_group()
    Path(path).write_text(json.dumps(told))


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    path = tmp_path_factory.mktemp("claims") / "told.json"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("SIMGPU", None)
    run = subprocess.run(
        [sys.executable, __file__, str(path)], env=environment, capture_output=True, text=True, timeout=600
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return json.loads(path.read_text())


@pytest.mark.xdist_group("claims about PyTorch")  # one process finds out about all
@pytest.mark.parametrize("name", CLAIMS)
def test_claim(told, name):
    assert not told[name], told[name]


if __name__ == "__main__":
    main(sys.argv[1])
