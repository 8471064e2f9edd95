"""Wrong uses of simulated GPUs: each is answered by an error to act on, and the device is usable afterwards."""

import io
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from torch import nn

import simgpu
from simgpu import torch_private
from simgpu.profiles import GpuProfile
from simgpu.torch_private import autograd

MiB = 2**20


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    yield
    simgpu.enable(count=2)


def on(number, *shape):
    return torch.ones(*shape or (2, 2), device=f"simgpu:{number}")


def host(*shape):
    return torch.ones(*shape or (2, 2))


def linear(number, **kwargs):
    return nn.Linear(2, 2, device=f"simgpu:{number}", **kwargs)


def saved(value):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return file


def saved_on_three_gpus():
    simgpu.enable(count=3)
    file = saved({"weight": on(2)})
    simgpu.enable(count=2)
    return file


def optimizer_state_elsewhere():
    layer = linear(0)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
    layer(on(0)).sum().backward()
    optimizer.step()
    for state in optimizer.state.values():
        state["momentum_buffer"] = state["momentum_buffer"].to("simgpu:1")
    optimizer.step()


def gradient_elsewhere():
    layer = linear(0)
    layer.weight.grad = on(1)


def small(room):
    simgpu.enable(count=2, memory=room * MiB)
    return torch.ones(MiB, device="simgpu:0", requires_grad=True)  # 4 MiB


def out_of_memory_in_backward():
    loss = (small(12) * 2).exp().sum()
    loss.backward()


def out_of_memory_in_the_optimizer():
    weight = small(17)
    weight.sum().backward()
    torch.optim.Adam([weight]).step()


def shapes_only():
    simgpu.enable(count=2, compute=False)
    return on(0)


def an_old_tensor():
    x = on(0)
    simgpu.enable(count=1)
    return x


def an_old_stream():
    stream = torch.simgpu.Stream()
    simgpu.enable(count=1)
    return stream


def events(record=2, **kwargs):
    pair = [torch.simgpu.Event(**kwargs) for _ in range(2)]
    for event in pair[:record]:
        on(0, 1000, 1000) @ on(0, 1000, 1000)
        event.record()
    return pair


def events_of_two_devices():
    pair = [torch.simgpu.Event(enable_timing=True) for _ in range(2)]
    for number, event in enumerate(pair):
        event.record(torch.simgpu.current_stream(f"simgpu:{number}"))
    return pair


def untested_torch():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "__version__", "2.9.1")
        torch_private.require_tested_torch()


def two_backends():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch._C, "_get_privateuse1_backend_name", lambda: "othergpu")
        torch_private.register_device_type("simgpu", None, None)


MIXED = "Expected all tensors to be on the same device, but "
ABSENT = r"no simgpu:2. This machine has 2 simulated GPUs: simgpu:0, simgpu:1; simgpu.enable\(count=3\) would give more"
SHAPES = r"keeps only shapes \(simgpu.enable\(compute=False\)\). Use simgpu.enable\(compute=True\)"
MEMORY = r"simgpu out of memory. Tried to allocate 4.00 MiB. GPU 0 has a total capacity of {} of which .* is free"
RETIRED = r"before simgpu.enable\(\) changed the simulated machine"

# What is done wrong, by name: the call, the error, what it says.
MISUSE = {
    # mixed devices, in every position of an argument
    "add": (lambda: on(0) + on(1), RuntimeError, MIXED + "found at least two devices, simgpu:0 and simgpu:1"),
    "add, reversed": (lambda: on(1) + on(0), RuntimeError, "simgpu:1 and simgpu:0"),
    "add, CPU left": (lambda: host() + on(0), RuntimeError, "cpu and simgpu:0"),
    "add, CPU right": (lambda: on(1) * host(), RuntimeError, "simgpu:1 and cpu"),
    "add in place": (lambda: on(0).add_(on(1)), RuntimeError, "simgpu:0 and simgpu:1"),
    "in place on the CPU": (lambda: host().add_(on(1)), RuntimeError, "cpu and simgpu:1"),
    "in place on the CPU, one number": (lambda: torch.tensor(0.0).add_(on(1).sum()), RuntimeError, "cpu and simgpu:1"),
    "out= on the CPU, one number": (
        lambda: torch.add(on(0).sum(), 1, out=torch.tensor(0.0)),
        RuntimeError,
        "simgpu:0 and cpu",
    ),
    "matmul": (
        lambda: on(0) @ on(1),
        RuntimeError,
        "got mat2 is on simgpu:1, different from other tensors on simgpu:0",
    ),
    "matmul, CPU left": (lambda: host() @ on(1), RuntimeError, "got mat2 is on simgpu:1, different .* on cpu"),
    "times a number of another GPU": (lambda: on(0) * on(1).sum(), RuntimeError, "simgpu:0 and simgpu:1"),
    "bmm": (lambda: torch.bmm(on(0, 1, 2, 2), on(1, 1, 2, 2)), RuntimeError, "got mat2 is on simgpu:1"),
    "linear, input on the CPU": (lambda: linear(0)(host()), RuntimeError, "got mat1 is on cpu, .* on simgpu:0"),
    "linear, input on another GPU": (lambda: linear(1)(on(0)), RuntimeError, "got mat1 is on simgpu:0, .* on simgpu:1"),
    "linear, weights left on the CPU": (
        lambda: nn.Linear(2, 2)(on(0)),
        RuntimeError,
        MIXED + "got mat1 is on simgpu:0",
    ),
    "convolution, weights elsewhere": (
        lambda: nn.Conv2d(1, 1, 1, device="simgpu:1")(on(0, 1, 1, 2, 2)),
        RuntimeError,
        "got weight is on simgpu:1, .* on simgpu:0",
    ),
    "normalisation, statistics elsewhere": (
        lambda: nn.functional.batch_norm(on(0), on(1, 2), on(1, 2)),
        RuntimeError,
        "got running_mean is on simgpu:1",
    ),
    "loss, target on the CPU": (lambda: nn.functional.mse_loss(on(1), host()), RuntimeError, "simgpu:1 and cpu"),
    "loss, target on another GPU": (
        lambda: nn.functional.mse_loss(on(1), on(0)),
        RuntimeError,
        "simgpu:1 and simgpu:0",
    ),
    "labels on the CPU": (
        lambda: nn.functional.cross_entropy(on(1), torch.tensor([0, 1])),
        RuntimeError,
        "got target is on cpu, different from other tensors on simgpu:1",
    ),
    "embedding, tokens on the CPU": (
        lambda: nn.Embedding(4, 2, device="simgpu:1")(torch.tensor([0])),
        RuntimeError,
        "got indices is on cpu",
    ),
    "cat": (lambda: torch.cat([on(0), on(1)]), RuntimeError, "got tensors is on simgpu:1"),
    "stack": (
        lambda: torch.stack([on(0), host()]),
        RuntimeError,
        "is on cpu, different from other tensors on simgpu:0",
    ),
    "where": (lambda: torch.where(on(0) > 0, on(0), on(1)), RuntimeError, "simgpu:0 and simgpu:1"),
    "out=": (lambda: torch.add(on(0), on(0), out=on(1)), RuntimeError, "simgpu:0 and simgpu:1"),
    "recurrent layer, state elsewhere": (
        lambda: nn.GRU(2, 2, device="simgpu:0")(on(0, 1, 1, 2), on(1, 1, 1, 2)),
        RuntimeError,
        "same device",
    ),
    "a number of the CPU in a dot product": (
        lambda: torch.dot(on(0, 1), host(1)),
        RuntimeError,
        "got tensor is on cpu",
    ),
    "optimizer state elsewhere": (optimizer_state_elsewhere, RuntimeError, "must be on the same device"),
    "gradient elsewhere": (gradient_elsewhere, RuntimeError, "attempting to assign a gradient located on device"),
    "gradient for backward elsewhere": (
        lambda: (on(0).requires_grad_() * 2).backward(on(1)),
        RuntimeError,
        "expected device simgpu:0 but got simgpu:1",
    ),
    # devices that are not there
    "make on a GPU that is not there": (lambda: torch.ones(2, device="simgpu:2"), RuntimeError, ABSENT),
    "move to a GPU that is not there": (lambda: host().to("simgpu:2"), RuntimeError, ABSENT),
    "move between, to one that is not there": (lambda: on(0).to("simgpu:2"), RuntimeError, ABSENT),
    "move a module to one that is not there": (lambda: nn.Linear(2, 2).to("simgpu:2"), RuntimeError, ABSENT),
    "choose one that is not there": (lambda: torch.simgpu.set_device(2), RuntimeError, ABSENT),
    "wait for one that is not there": (lambda: torch.simgpu.synchronize("simgpu:2"), RuntimeError, ABSENT),
    "a stream on one that is not there": (lambda: torch.simgpu.Stream("simgpu:2"), RuntimeError, ABSENT),
    "a negative number": (lambda: torch.simgpu.set_device(-1), RuntimeError, "invalid device ordinal -1"),
    "a device of another type": (lambda: torch.simgpu.synchronize("cpu"), ValueError, "Expected a simgpu device"),
    "a checkpoint of a GPU that is not there": (lambda: torch.load(saved_on_three_gpus()), RuntimeError, ABSENT),
    "a checkpoint mapped to one that is not there": (
        lambda: torch.load(saved(host()), map_location="simgpu:2"),
        RuntimeError,
        ABSENT + r'. Or load it elsewhere: torch.load\(..., map_location="simgpu:0"\)',
    ),
    "a real GPU that is not there": (
        lambda: on(1).to("cuda:1"),
        (RuntimeError, AssertionError),  # a PyTorch with CUDA, and one without
        "NVIDIA driver|not compiled with CUDA",
    ),
    # memory
    "out of memory, making": (lambda: small(3), torch.OutOfMemoryError, MEMORY.format("3.00 MiB")),
    "out of memory, forward": (lambda: (small(8) * 2).exp(), torch.OutOfMemoryError, MEMORY.format("8.00 MiB")),
    "out of memory, backward": (out_of_memory_in_backward, torch.OutOfMemoryError, MEMORY.format("12.00 MiB")),
    "out of memory, optimizer": (
        out_of_memory_in_the_optimizer,
        torch.OutOfMemoryError,
        MEMORY.format("17.00 MiB"),
    ),
    "out of memory, loading": (
        lambda: (small(5), torch.load(saved(torch.ones(MiB)), map_location="simgpu:0")),
        torch.OutOfMemoryError,
        MEMORY.format("5.00 MiB"),
    ),
    # values that are not there, or not readable from here
    "item, shapes only": (lambda: shapes_only().sum().item(), RuntimeError, SHAPES),
    "to the CPU, shapes only": (lambda: shapes_only().cpu(), RuntimeError, SHAPES),
    "if, shapes only": (lambda: bool((shapes_only() > 0).any()), RuntimeError, SHAPES),
    "mask, shapes only": (lambda: (lambda x: x[x > 0])(shapes_only()), RuntimeError, SHAPES),
    "numpy": (lambda: on(0).numpy(), TypeError, r"can't convert simgpu:0 .* Use Tensor.cpu\(\)"),
    "numpy from outside": (lambda: np.asarray(on(0)), TypeError, r"can't convert simgpu:0"),
    "numpy of something with a gradient": (lambda: np.asarray(linear(1).weight), TypeError, r"simgpu:1"),
    "another library's view": (lambda: np.from_dlpack(on(0)), BufferError, r"copy the tensor with .cpu\(\)"),
    # what went with an earlier machine
    "a tensor of an earlier machine": (
        lambda: an_old_tensor() + 1,
        RuntimeError,
        RETIRED + ".*Run the cells that made it",
    ),
    "a stream of an earlier machine": (
        lambda: an_old_stream().synchronize(),
        RuntimeError,
        RETIRED + ".*Make a new one",
    ),
    # events
    "time between events without timing": (
        lambda: (lambda a, b: a.elapsed_time(b))(*events()),
        ValueError,
        "enable_timing=True",
    ),
    "time to an event that was not recorded": (
        lambda: (lambda a, b: a.elapsed_time(b))(*events(record=1, enable_timing=True)),
        ValueError,
        "must be recorded",
    ),
    "time to an event that has not happened": (
        lambda: (lambda a, b: a.elapsed_time(b))(*events(enable_timing=True)),
        RuntimeError,
        r"Both events must be completed .* end_event.synchronize\(\)",
    ),
    "time between events of two devices": (
        lambda: (lambda a, b: a.elapsed_time(b))(*events_of_two_devices()),
        RuntimeError,
        "invalid resource handle.*simgpu:0.*simgpu:1.*record both in its streams",
    ),
    "an event recorded by another device": (
        lambda: events(enable_timing=True)[0].record(torch.simgpu.current_stream("simgpu:1")),
        RuntimeError,
        "Event device 0 does not match recording stream's device 1",
    ),
    # what simulated GPUs cannot do
    "DataParallel": (lambda: nn.DataParallel(linear(0)), RuntimeError, "Use torch.nn.parallel.DistributedDataParallel"),
    "sparse tensors": (lambda: on(0).to_sparse(), NotImplementedError, "keep those on the CPU"),
    "compressed tensors, moved": (
        lambda: torch.eye(2).to_sparse_csr().to("simgpu:0"),
        NotImplementedError,
        "keep those on the CPU",
    ),
    "compressed tensors, made there": (
        lambda: torch.empty(2, 2, layout=torch.sparse_csr, device="simgpu:0"),
        NotImplementedError,
        "keep those on the CPU",
    ),
    "compressed tensors, made of shapes": (
        lambda: (simgpu.enable(compute=False), on(0).to_sparse_csr()),
        NotImplementedError,
        "keep those on the CPU",
    ),
    "pinning a GPU's tensor": (lambda: on(0).pin_memory(), RuntimeError, "only dense CPU tensors can be pinned"),
    # settings
    "no GPUs": (lambda: simgpu.enable(count=0), ValueError, "count must be a whole number from 1 to 64"),
    "an unknown GPU": (lambda: simgpu.enable(gpu="V1000"), ValueError, "There are: T4, P40, GP100, V100"),
    "an unknown link": (lambda: simgpu.enable(link="wire"), ValueError, "There are: pcie3, pcie4"),
    "an unknown clock": (lambda: simgpu.enable(clock="wall"), ValueError, "There are: virtual, paced"),
    "memory in words": (lambda: simgpu.enable(memory="16 GB"), ValueError, "memory is a number of bytes"),
    "a GPU without bandwidth": (
        lambda: GpuProfile("Odd", 1e12, 0, 1e9, 1, "made up"),
        ValueError,
        "bandwidth=0.*above 0",
    ),
    "a log of -1 records": (lambda: simgpu.keep_log(-1), ValueError, "how many records, 0 for none"),
    "an untested torch": (untested_torch, RuntimeError, r"torch 2\.11 to 2\.15.*pip install"),
    "another backend": (two_backends, RuntimeError, "'othergpu' has taken it.*Restart Python"),
    "measuring what is not there": (lambda: simgpu.measure_profile("cuda:0"), RuntimeError, "cannot be measured here"),
    # what the CPU refuses too
    "shapes that do not fit": (
        lambda: on(0, 2, 3) @ on(0, 2, 3),
        RuntimeError,
        "mat1 and mat2 shapes cannot be multiplied",
    ),
    "a second backward": (
        lambda: (lambda loss: (loss.backward(), loss.backward()))((on(0).requires_grad_() ** 2).sum()),
        RuntimeError,
        "backward through the graph a second time",
    ),
    "in place on a leaf": (lambda: on(0).requires_grad_().add_(1), RuntimeError, "leaf Variable"),
}


@pytest.mark.parametrize("case", MISUSE)
def test_misuse(case):
    if case in ("measuring what is not there", "a real GPU that is not there") and torch.cuda.is_available():
        pytest.skip("there is a real GPU")
    wrong, kind, says = MISUSE[case]
    with pytest.raises(kind, match=f"(?s){says}") as error:
        wrong()
    assert len(str(error.value).splitlines()[0]) < 400
    del error
    simgpu.enable(count=2)
    for x in (on(0), on(1)):  # usable afterwards, forward and backward
        x.requires_grad_()
        (x * x).sum().backward()
        assert torch.equal(x.grad.cpu(), torch.full((2, 2), 2.0))
    assert (on(0).to("simgpu:1") + on(1)).sum().item() == 8


def test_there_are_at_least_thirty():
    assert len(MISUSE) >= 30


@pytest.mark.parametrize("use", ["x[i]", "x.__setitem__(i, 5.0)", "x.index_put_((i,), torch.tensor(2.0))"])
def test_a_tensor_on_the_cpu_has_no_index_on_a_gpu(use):
    """The other way it works, as on CUDA."""
    x, i = torch.ones(3), torch.tensor([0, 1]).to("simgpu:0")
    with pytest.raises(RuntimeError, match=r"indices should be either on cpu or on the same device as the indexed"):
        eval(use, {"x": x, "i": i, "torch": torch})
    assert x.tolist() == [1, 1, 1]
    assert x.to("simgpu:0")[i.cpu()].device.type == "simgpu"


def test_data_of_a_simulated_tensor_stays_on_simulated_gpus():
    weight = torch.nn.Parameter(torch.ones(2, device="simgpu:0"))
    weight.data = torch.ones(2, device="simgpu:1")
    assert weight.device == torch.device("simgpu:1")
    with pytest.raises(RuntimeError, match=r"cannot become a tensor that is on the cpu.*x\.copy_"):
        weight.data = torch.ones(2)


def test_a_backward_pass_on_real_gpus_says_why_it_cannot_run():
    """On a machine with a GPU, after `enable` (seen on an H200 with PyTorch 2.11)."""

    def failed(*_):
        raise RuntimeError('opt_ready_stream && opt_parent_stream INTERNAL ASSERT FAILED at "engine.cpp":1084')

    run = autograd.raising_what_was_taken(failed, "simgpu", nullcontext)
    with pytest.raises(RuntimeError, match=r"no backward pass on real GPUs once .* issue 161129") as refused:
        run((), ())
    assert len(str(refused.value).splitlines()) == 1
