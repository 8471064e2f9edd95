"""Time, memory and shape-only mode of the simulated machine, against numbers worked out by hand."""

import gc
import math

import pytest
import torch
from torch import nn

import simgpu
from simgpu import clock as clock_module
from simgpu import operators
from simgpu.hardware import machine
from simgpu.profiles import GPUS, LINKS, GpuProfile, LinkProfile, add_gpu

# Round numbers, so that the expected times can be read.
PLAIN = GpuProfile(
    "Plain", 1e12, 1e9, 1e6, 1, "made up for these tests", efficiency=1, streams=1, launch=1e-6, shortest=1e-15
)
LINK = LinkProfile("plain link", 1e6, "made up for these tests", latency=1e-3)


@pytest.fixture(autouse=True)
def afterwards():
    yield
    simgpu.enable(count=2)


def plain(**settings):
    simgpu.enable(**({"count": 2, "gpu": PLAIN, "link": LINK, "memory": 10**9} | settings))


def records(kind=None):
    return [record for record in simgpu.log() if kind in (None, record.kind)]


# --- time ---------------------------------------------------------------------------------------------------


def test_a_kernel_starts_when_it_is_launched_and_ends_after_its_cost():
    plain()
    x = torch.empty(1000, device="simgpu:0")
    x + x
    (kernel,) = records("kernel")
    assert (kernel.name, kernel.device, kernel.phase) == ("add", 0, "forward")
    assert kernel.bytes == 2 * 4000 + 4000  # both operands read, the result written
    assert kernel.start == pytest.approx(1e-6)  # the host paid for the launch
    assert kernel.end - kernel.start == pytest.approx(12_000 / 1e9)  # the memory is the bound


def test_the_host_runs_ahead_and_waits_when_it_is_told_to():
    plain()
    x = torch.empty(250_000, device="simgpu:0")
    for _ in range(3):
        x + x
    ends = [kernel.end for kernel in records("kernel")]
    assert simgpu.now() == pytest.approx(3e-6)
    assert ends[2] == pytest.approx(1e-6 + 3 * 3e-3)  # one after the other on the stream
    torch.simgpu.synchronize("simgpu:1")
    assert simgpu.now() == pytest.approx(3e-6)
    torch.simgpu.synchronize("simgpu:0")
    assert simgpu.now() == ends[2]


def test_flops_bound_a_matrix_product():
    plain()
    a = torch.empty(1000, 1000, device="simgpu:0")
    a @ a
    (product,) = records("kernel")
    assert product.flops == 2 * 1000**3
    # in tiles of 32 x 32 outputs; of computing and moving the longer, and half of the shorter
    assert product.end - product.start == pytest.approx(12e6 / 1e9 + 0.5 * 2 * 1024**2 * 1000 / 1e12)


def test_a_small_product_does_not_fill_the_chip():
    wide = GpuProfile("Wide", 1e9, 1e15, 1e9, 100, "made up", efficiency=1.0, shortest=1e-12)
    plain(gpu=wide)
    a = torch.empty(32, 1000, device="simgpu:0")
    a @ a.T  # 32 x 32 outputs: one tile, one multiprocessor of a hundred
    (product,) = records("kernel")
    assert product.end - product.start == pytest.approx(2 * 32 * 32 * 1000 / (1e9 / 100))


def test_two_devices_work_at_the_same_time():
    plain()
    x, y = (torch.empty(250_000, device=f"simgpu:{i}") for i in range(2))
    x + x
    y + y
    first, second = records("kernel")
    assert second.start < first.end


def test_a_copy_between_devices_waits_for_both_and_both_wait_for_it():
    plain()
    x, y = (torch.empty(250_000, device=f"simgpu:{i}") for i in range(2))
    x + x
    z = x.to("simgpu:1")
    y + y
    first, copy, second = records()
    assert (copy.kind, copy.device, copy.other, copy.bytes) == ("d2d", 0, 1, 1_000_000)
    assert copy.start == first.end
    assert copy.end - copy.start == pytest.approx(1e-3 + 1.0)
    assert second.start == copy.end
    assert z.device == torch.device("simgpu:1")


def test_copies_from_and_to_the_host_block_it():
    plain()
    x = torch.ones(1000).to("simgpu:0")
    (up,) = records()
    assert (up.kind, up.other) == ("h2d", "cpu")
    assert simgpu.now() == up.end
    x.cpu()
    assert records()[-1].kind == "d2h"
    assert simgpu.now() == records()[-1].end
    (x * 2).sum().item()
    assert simgpu.now() == records()[-1].end


def test_views_start_no_kernel():
    plain()
    x = torch.empty(4, 6, device="simgpu:0")
    x.view(24).t()
    x[1:, ::2].unsqueeze(0).unsqueeze_(0)
    assert records() == []


def test_the_log_tells_forward_from_backward():
    plain()
    layer = nn.Linear(8, 4, device="simgpu:0")
    machine.log.clear()
    layer(torch.empty(2, 8, device="simgpu:0")).sum().backward()
    phases = [(record.name, record.phase) for record in records("kernel")]
    assert ("addmm", "forward") in phases
    assert ("mm", "backward") in phases


def test_what_a_backward_pass_calls_at_its_end_is_of_the_backward_pass():
    """As DDP copies its buckets: there is no node then, and no frame of a module above."""
    plain()
    weight = torch.ones(4, device="simgpu:0", requires_grad=True)
    at_the_end = torch.autograd.Variable._execution_engine.queue_callback
    weight.register_post_accumulate_grad_hook(lambda weight: at_the_end(lambda: weight.grad.neg_()))
    (weight * 3).sum().backward()
    assert weight.grad.tolist() == [-3] * 4
    assert [record.phase for record in records("kernel") if record.name == "neg_"] == ["backward"]
    weight.detach().neg_()
    assert records("kernel")[-1].phase == "forward"


def step(model, x):
    model(x).square().mean().backward()


def test_two_runs_give_the_same_times_to_the_last_digit():
    logs = []
    for count in (2, 3, 2):  # another machine between, so that the third is a new one
        simgpu.enable(count=count)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to("simgpu:0")
        for _ in range(3):
            step(model, torch.randn(16, 64, device="simgpu:0"))
        torch.simgpu.synchronize("simgpu:0")
        logs.append(simgpu.log())
    assert len(logs[0]) > 30
    assert logs[0] == logs[2]


def test_the_paced_clock_is_the_wall_clock_and_waiting_sleeps(monkeypatch):
    wall = {"now": 100.0}
    slept = []

    def sleep(seconds):
        slept.append(seconds)
        wall["now"] += seconds

    monkeypatch.setattr(clock_module.time, "perf_counter", lambda: wall["now"])
    monkeypatch.setattr(clock_module.time, "sleep", sleep)
    plain(clock="paced")
    x = torch.empty(250_000, device="simgpu:0")
    wall["now"] += 1.0
    x + x
    (kernel,) = records("kernel")
    assert kernel.start == pytest.approx(1.0)
    torch.simgpu.synchronize("simgpu:0")
    assert sum(slept) == pytest.approx(3e-3)
    torch.simgpu.synchronize("simgpu:0")
    assert sum(slept) == pytest.approx(3e-3)


def test_a_computer_slower_than_the_simulated_gpu_is_told_of_once(monkeypatch):
    wall = {"now": 0.0}
    monkeypatch.setattr(clock_module.time, "perf_counter", lambda: wall["now"])
    monkeypatch.setattr(clock_module.time, "sleep", lambda seconds: None)
    plain(clock="paced")
    x = torch.empty(4, device="simgpu:0")
    x + x

    def slow_add(*values, **kwargs):
        wall["now"] += 0.2
        return torch.add(*values, **kwargs)

    (operator,) = [o for o in operators.known_operators() if o.name == "add" and o.plans]
    monkeypatch.setattr(operator, "func", slow_add)
    with pytest.warns(RuntimeWarning, match=r"needed 0\.6 s to compute .*Instructional") as told:
        _ = [x + x for _ in range(10)]
    assert len(told) == 1


# --- memory -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [lambda x: x.split(3), lambda x: x.chunk(4), lambda x: x.unbind(), lambda x: x.T])
def test_a_list_of_views_takes_no_memory_and_starts_no_kernel(pieces):
    simgpu.enable(count=2)
    x = torch.zeros(12, 128, device="simgpu:1")
    held, logged = torch.simgpu.memory_allocated("simgpu:1"), len(simgpu.log())
    found = pieces(x)
    assert torch.simgpu.memory_allocated("simgpu:1") == held
    assert len(simgpu.log()) == logged
    found[0].fill_(1)
    assert x.sum().item() > 0, "a view writes into what it is a view of"
    x.record_stream(torch.simgpu.current_stream("simgpu:1"))


def test_memory_counts_each_storage_once_and_frees_it_with_its_last_view():
    plain()
    x = torch.empty(1000, device="simgpu:0")
    assert torch.simgpu.memory_allocated("simgpu:0") == 4096  # blocks of 512 bytes
    view = x[10:20].view(5, 2)
    assert torch.simgpu.memory_allocated("simgpu:0") == 4096
    del x
    assert torch.simgpu.memory_allocated("simgpu:0") == 4096
    del view
    assert torch.simgpu.memory_allocated("simgpu:0") == 0
    assert torch.simgpu.max_memory_allocated("simgpu:0") == 4096
    torch.simgpu.reset_peak_memory_stats("simgpu:0")
    assert torch.simgpu.max_memory_allocated("simgpu:0") == 0
    assert torch.simgpu.mem_get_info("simgpu:0") == (10**9, 10**9)
    assert torch.simgpu.memory_allocated("simgpu:1") == 0


def test_the_peak_includes_what_autograd_saves():
    plain()
    x = torch.empty(1280, device="simgpu:0", requires_grad=True)
    y = x.exp()
    y = y.exp()
    y = y.exp()  # each exp saves its result
    assert torch.simgpu.memory_allocated("simgpu:0") == 4 * 5120
    y.sum().backward()
    del y
    assert torch.simgpu.memory_allocated("simgpu:0") == 2 * 5120  # x and its gradient


def test_what_was_freed_stays_reserved_until_the_cache_is_emptied():
    plain()
    mib, gpu = 2**20, "simgpu:0"

    def figures():
        return tuple(
            count(gpu) / mib
            for count in (
                torch.simgpu.memory_reserved,
                torch.simgpu.max_memory_reserved,
                torch.simgpu.max_memory_allocated,
            )
        )

    kept, freed = torch.empty(mib, device=gpu), torch.empty(5 * mib // 4, device=gpu)
    assert figures() == (10, 10, 9)  # in steps of 2 MiB, as PyTorch takes it from the GPU
    del freed
    assert figures() == (10, 10, 9)
    torch.simgpu.reset_peak_memory_stats(gpu)
    assert figures() == (10, 10, 4)
    torch.simgpu.empty_cache()
    assert figures() == (4, 10, 4)
    torch.simgpu.reset_peak_memory_stats(gpu)
    assert figures() == (4, 4, 4)
    assert torch.simgpu.memory_stats(gpu)["reserved_bytes.all.current"] == 4 * mib
    assert "Reserved memory         4.00 MiB" in torch.simgpu.memory_summary(gpu)
    del kept
    assert figures() == (4, 4, 4)


def test_emptying_the_cache_leaves_the_peak_as_it_was():
    plain()
    x = torch.empty(2**20, device="simgpu:0")
    del x
    torch.simgpu.empty_cache()
    assert torch.simgpu.memory_reserved("simgpu:0") == 0
    assert torch.simgpu.max_memory_allocated("simgpu:0") == 4 * 2**20


@pytest.mark.parametrize("compute", [True, False])
def test_a_product_whose_result_is_given_another_shape_is_there_once(compute):
    plain(compute=compute)
    weight = torch.empty(256, 64, device="simgpu:0")
    for _ in range(2):  # the second time from a plan
        x = torch.empty(8, 16, 64, device="simgpu:0")
        torch.simgpu.reset_peak_memory_stats("simgpu:0")
        held, logged = torch.simgpu.memory_allocated("simgpu:0"), len(simgpu.log())
        out = nn.functional.linear(x, weight)
        assert torch.simgpu.max_memory_allocated("simgpu:0") - held == 4 * out.numel() == 4 * 8 * 16 * 256
        assert [record.name for record in simgpu.log()[logged:]] == ["mm"]
        parts = torch.unsafe_chunk(out, 4, dim=2)
        assert torch.simgpu.memory_allocated("simgpu:0") - held == 4 * out.numel()
        del out, parts


def peak_of_a_step(optimizer, **settings) -> tuple[float, float]:
    """(what lives on, the peak) of an optimizer's second step, in sizes of all weights. Gradients count as one."""
    plain(compute=False)
    weights = [torch.empty(256, 256, device="simgpu:0", requires_grad=True) for _ in range(40)]
    optimizer = optimizer(weights, **settings)
    for _ in range(2):
        for weight in weights:
            weight.grad = torch.empty(256, 256, device="simgpu:0")
        torch.simgpu.reset_peak_memory_stats("simgpu:0")
        optimizer.step()
    unit = 40 * 4 * 256 * 256
    return torch.simgpu.memory_allocated("simgpu:0") / unit, torch.simgpu.max_memory_allocated("simgpu:0") / unit


# (what lives on, the peak), as PyTorch on CUDA: one list of temporaries for Adam and those like it.
PEAKS = {
    "SGD": (torch.optim.SGD, {}, 2, 2),
    "SGD, momentum": (torch.optim.SGD, {"momentum": 0.9}, 3, 3),
    "SGD, weight decay": (torch.optim.SGD, {"weight_decay": 0.1}, 2, 3),
    "Adam": (torch.optim.Adam, {}, 4, 5),
    "AdamW": (torch.optim.AdamW, {}, 4, 5),
    "Adam, amsgrad": (torch.optim.Adam, {"amsgrad": True}, 5, 6),
    "RMSprop": (torch.optim.RMSprop, {}, 3, 4),
    "Adadelta": (torch.optim.Adadelta, {}, 4, 6),
}


@pytest.mark.parametrize("name", PEAKS)
def test_the_peak_of_an_optimizers_step(name):
    optimizer, settings, lives_on, peak = PEAKS[name]
    assert peak_of_a_step(optimizer, **settings) == (lives_on, peak)


def test_an_optimizer_that_goes_through_its_weights_one_by_one_has_small_temporaries():
    lives_on, peak = peak_of_a_step(torch.optim.Adam, foreach=False)
    assert lives_on == 4
    assert lives_on < peak < 4.1


@pytest.mark.parametrize(("set_to_none", "sizes"), [(True, 1), (False, 2)])
def test_gradients_are_freed_when_they_are_set_to_none(set_to_none, sizes):
    plain()
    weight = torch.zeros(1024, device="simgpu:0", requires_grad=True)
    optimizer = torch.optim.SGD([weight])
    weight.sum().backward()
    optimizer.zero_grad(set_to_none=set_to_none)
    assert torch.simgpu.memory_allocated("simgpu:0") == sizes * 4096


@pytest.mark.slow
def test_training_leaks_nothing():
    plain(compute=False)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to("simgpu:0")
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.empty(16, 64, device="simgpu:0")
    held = []
    for number in range(1000):
        optimizer.zero_grad()
        step(model, x)
        optimizer.step()
        if number in (5, 999):
            gc.collect()
            held.append(torch.simgpu.memory_allocated("simgpu:0"))
    assert held[0] == held[1]


# How many MiB are one too few for each stage of one training step with a parameter of 4 MiB.
@pytest.mark.parametrize(("stage", "room"), [("moving", 1), ("forward", 8), ("backward", 12), ("optimizer", 17)])
def test_out_of_memory_in_pytorchs_words_and_the_device_is_usable_afterwards(stage, room):
    plain(memory=room * 2**20)
    reached = []

    def train():
        reached.append("moving")
        weight = torch.zeros(2**20).to("simgpu:0").requires_grad_()
        reached.append("forward")
        loss = (weight * 2).exp().sum()
        reached.append("backward")
        loss.backward()
        del loss
        reached.append("optimizer")
        torch.optim.Adam([weight]).step()

    with pytest.raises(torch.OutOfMemoryError) as error:
        train()
    assert reached[-1] == stage
    assert "simgpu out of memory. Tried to allocate 4.00 MiB" in str(error.value)
    assert f"GPU 0 has a total capacity of {room}.00 MiB" in str(error.value)
    del error
    gc.collect()
    assert torch.simgpu.memory_allocated("simgpu:0") == 0
    assert (torch.ones(4, device="simgpu:0") + 1).sum().item() == 8


# --- shapes only --------------------------------------------------------------------------------------------


def test_shape_only_takes_the_same_time_and_memory_as_with_values():
    results = []
    for compute in (True, False):
        simgpu.enable(count=2, compute=compute)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4))
        model.to("simgpu:1")
        for _ in range(2):  # the second time from plans
            step(model, torch.randn(4, 3, 8, 8).to("simgpu:1"))
        results.append((simgpu.log(), torch.simgpu.max_memory_allocated("simgpu:1")))
        del model
    assert results[0] == results[1]


def test_a_model_that_no_machine_holds_can_be_planned():
    simgpu.enable(count=2, compute=False, memory=10**13)
    with torch.device("simgpu:0"):
        layer = nn.Linear(10**6, 10**6, bias=False)
    out = layer(torch.empty(8, 10**6, device="simgpu:0"))
    assert out.shape == (8, 10**6)
    assert torch.simgpu.memory_allocated("simgpu:0") > 4 * 10**12
    assert "size=(8, 1000000)" in repr(out)


@pytest.mark.parametrize(
    "read", [lambda x: x.sum().item(), lambda x: x.cpu(), lambda x: x.tolist(), lambda x: bool(x.any()), torch.nonzero]
)
def test_reading_a_value_in_shape_only_mode_is_a_clear_error(read):
    simgpu.enable(count=2, compute=False)
    x = torch.ones(3, device="simgpu:0")
    with pytest.raises(RuntimeError, match=r"keeps only shapes \(simgpu\.enable\(compute=False\)\)"):
        read(x)
    assert (x + x).shape == (3,)


# --- profiles and settings ----------------------------------------------------------------------------------


def test_every_profile_has_its_source_and_makes_sense():
    for gpu in GPUS.values():
        assert gpu.source
        assert 0 < gpu.bandwidth < gpu.flops
        assert all(peak > gpu.flops for peak in gpu.fast.values())
        assert gpu.peak(torch.float32) == gpu.flops
    for link in LINKS.values():
        assert link.source
        assert link.bandwidth > 0
        assert link.seconds(10**6) == link.latency + 10**6 / link.bandwidth <= link.seconds(10**6, pageable=True)


def test_a_profile_in_a_few_lines():
    add_gpu(PLAIN)
    try:
        simgpu.enable(count=1, gpu="plain")
        assert torch.simgpu.get_device_name(0) == "Plain (simulated)"
    finally:
        del GPUS["Plain"]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gpu": "V1000"}, r"gpu='V1000'\): there is no such profile. There are: T4, P40, GP100, V100"),
        ({"link": "wire"}, r"link='wire'\): there is no such profile. There are: pcie3"),
        ({"clock": "wall"}, r"clock='wall'\): there is no such clock. There are: virtual, paced"),
        ({"memory": 0}, "memory is a number of bytes"),
        ({"memory": "16 GB"}, "memory is a number of bytes"),
    ],
)
def test_settings_that_make_no_sense(settings, says):
    simgpu.enable(count=2)
    with pytest.raises(ValueError, match=says):
        simgpu.enable(count=2, **settings)
    assert torch.simgpu.get_device_name(0) == "V100 (simulated)"


# --- recurrent cells, which the CPU computes in another way ----------------------------------------------------


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"bidirectional": True, "num_layers": 2}])
def test_recurrent_layers_give_the_cpus_results_and_gradients(kind, options):
    simgpu.enable(count=2)
    torch.manual_seed(0)
    here = kind(6, 5, batch_first=True, **options)
    there = kind(6, 5, batch_first=True, **options)
    there.load_state_dict(here.state_dict())
    there.to("simgpu:1")
    x = torch.randn(3, 4, 6)
    outputs = [model(x.to(next(model.parameters()).device))[0] for model in (here, there)]
    for output in outputs:
        output.square().mean().backward()
    torch.testing.assert_close(outputs[1].cpu(), outputs[0])
    for mine, theirs in zip(there.parameters(), here.parameters(), strict=True):
        torch.testing.assert_close(mine.grad.cpu(), theirs.grad)
    assert math.isfinite(outputs[1].sum().item())


def test_an_estimate_is_what_the_machine_then_takes():
    simgpu.enable(count=1, gpu="T4", compute=False)
    layer, x = torch.nn.Linear(512, 256), torch.empty(64, 512)
    guess = simgpu.estimate(layer, x)
    assert layer.weight.device.type == "cpu"
    assert (guess.kernels, guess.bytes, guess.output.device.type) == (1, 64 * 256 * 4, "meta")
    layer, x = layer.to("simgpu:0"), x.to("simgpu:0")
    begin = simgpu.now()
    layer(x)
    [kernel] = simgpu.log(since=begin)
    assert kernel.end - kernel.start == pytest.approx(guess.seconds)
    assert simgpu.estimate(layer, x, gpu="V100").seconds < guess.seconds


def test_settings_and_generation_say_which_machine_there_is():
    simgpu.enable(count=2)
    before = simgpu.generation()
    assert (simgpu.settings().count, simgpu.settings().gpu.name, simgpu.settings().clock) == (2, "V100", "virtual")
    simgpu.enable(count=2)
    assert simgpu.generation() == before
    simgpu.enable(count=3)
    assert (simgpu.generation(), simgpu.settings().count) == (before + 1, 3)


def test_the_machine_is_initialized_once_somebody_has_chosen_or_used_a_gpu():
    for use in (lambda: torch.simgpu.set_device(0), lambda: torch.ones(1, device="simgpu:1")):
        simgpu.enable(count=3)
        simgpu.enable(count=2)
        assert not torch.simgpu.is_initialized()
        kept = use()
        assert torch.simgpu.is_initialized()
        del kept
