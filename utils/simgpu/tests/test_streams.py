"""Streams, events, pinned memory, utilization: what runs at the same time, and what waits for what."""

import threading
import warnings

import pytest
import torch
from torch import nn

import simgpu
from simgpu.hardware import machine
from simgpu.profiles import GpuProfile, LinkProfile

# Round numbers, so that the expected times can be read: a kernel on MB takes 3 ms, a copy of 1 MB 1 s.
PLAIN = GpuProfile(
    "Plain", 1e12, 1e9, 1e9, 1, "made up for these tests", efficiency=1, streams=1, launch=1e-6, shortest=1e-15
)
LINK = LinkProfile("plain link", 1e6, "made up for these tests", latency=0.0)
MB = 250_000  # elements
KERNEL, COPY = 3e-3, 1.0


@pytest.fixture(autouse=True)
def plain():
    simgpu.enable(count=2, gpu=PLAIN, link=LINK, memory=10**9)
    yield
    simgpu.enable(count=2)


def on(number, elements=MB):
    return torch.empty(elements, device=f"simgpu:{number}")


def records(kind=None):
    return [record for record in simgpu.log() if kind in (None, record.kind)]


def length(record):
    return record.end - record.start


def test_one_engine_runs_the_kernels_of_all_streams():
    x, stream = on(0), torch.simgpu.Stream("simgpu:0")
    x + x
    with torch.simgpu.stream(stream):
        x + x
    first, second = records("kernel")
    assert (first.stream, second.stream) == (0, 1)
    assert second.start == first.end


def test_a_copy_on_its_own_stream_overlaps_a_kernel():
    x, y, stream = on(0), on(0), torch.simgpu.Stream("simgpu:0")
    with stream, torch.simgpu.stream(torch.simgpu.Stream("simgpu:1")):
        x.to("simgpu:1")
    with torch.simgpu.device(0):
        y + y
    copy, kernel = records()
    assert kernel.start < copy.start + length(copy)
    assert kernel.end < copy.end


def test_copies_in_and_out_have_engines_of_their_own():
    x, y = on(0), on(1)
    streams = [[torch.simgpu.Stream(f"simgpu:{i}") for i in range(2)] for _ in range(2)]
    for pair, tensor, target in ((streams[0], x, "simgpu:1"), (streams[1], y, "simgpu:0"), (streams[1], x, "simgpu:1")):
        with pair[0], pair[1]:
            tensor.to(target)
    there, back, again = records("d2d")
    assert back.start < there.end  # the other direction
    assert again.start >= there.end  # the same engines


def test_a_kernel_takes_the_gap_before_one_that_waits():
    x, stream, event = on(0), torch.simgpu.Stream("simgpu:0"), torch.simgpu.Event()
    on(1).to("simgpu:0")  # a second on the default stream of both
    event.record()
    with stream:
        x + x  # needs nothing of the copy
    event.wait(stream)
    with stream:
        x + x
    copy, free, waiting = records()
    assert free.end < copy.end
    assert waiting.start == copy.end
    with torch.simgpu.stream(torch.simgpu.Stream("simgpu:0")):
        x + x  # launched last, and before the waiting one in time
    assert records()[-1].end < waiting.start


def test_events_measure_exactly():
    x = on(0)
    start, end = (torch.simgpu.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(3):
        x + x
    end.record()
    assert not end.query()
    end.synchronize()
    assert end.query()
    # three kernels, and the launch of the first, which the device waits for
    assert start.elapsed_time(end) == pytest.approx((3 * KERNEL + 1e-6) * 1e3, rel=1e-9)
    assert simgpu.now() == pytest.approx(3 * KERNEL + 1e-6)


def test_asking_costs_the_host_time_so_a_loop_that_asks_ends():
    x, event = on(0), torch.simgpu.Event()
    x + x
    event.record()
    asked = 0
    while not event.query():
        asked += 1
    assert asked == pytest.approx(KERNEL / 1e-6, abs=2)
    x + x
    while not torch.simgpu.current_stream().query():
        asked += 1
    assert asked == pytest.approx(2 * KERNEL / 1e-6, abs=4)


def test_streams_wait_for_each_other():
    x, first, second = on(0), torch.simgpu.Stream("simgpu:0"), torch.simgpu.Stream("simgpu:1")
    y = on(1)
    with first:
        x + x
    second.wait_stream(first)
    with second:
        y + y
    a, b = records()
    assert b.start == a.end
    assert not second.query()
    second.synchronize()
    assert second.query()
    assert simgpu.now() == b.end


def test_the_current_stream_belongs_to_a_thread():
    stream, seen = torch.simgpu.Stream("simgpu:1"), []
    with stream:
        assert torch.simgpu.current_device() == 1
        assert torch.simgpu.current_stream() == stream
        thread = threading.Thread(
            target=lambda: seen.append((torch.simgpu.current_device(), torch.simgpu.current_stream()))
        )
        thread.start()
        thread.join()
    assert seen == [(0, torch.simgpu.default_stream(0))]
    assert torch.simgpu.current_stream("simgpu:1") == torch.simgpu.default_stream(1)


def test_set_stream_stays_and_a_with_block_goes_back_to_what_was_current():
    first, second = (torch.simgpu.Stream("simgpu:0") for _ in range(2))
    default = torch.simgpu.default_stream(0)
    with first:
        for _ in range(3):
            torch.simgpu.set_stream(second)
            assert torch.simgpu.current_stream() == second
        torch.simgpu.set_stream(first)
    assert torch.simgpu.current_stream() == default
    torch.simgpu.set_stream(second)
    with second, first:
        torch.simgpu.set_stream(second)
    assert torch.simgpu.current_stream() == second
    torch.simgpu.set_stream(default)
    assert torch.simgpu.current_stream() == default


def test_pageable_copies_block_the_host_and_pinned_ones_need_not():
    pageable, pinned = torch.ones(MB), torch.ones(MB).pin_memory()
    assert pinned.is_pinned()
    assert not pageable.is_pinned()
    assert pinned[10:].is_pinned()  # a view of it
    for tensor, non_blocking, blocks in ((pageable, True, True), (pinned, False, True), (pinned, True, False)):
        tensor.to("simgpu:0", non_blocking=non_blocking)
        assert (simgpu.now() >= records()[-1].end) == blocks
        torch.simgpu.synchronize("simgpu:0")
    x = on(0)
    back = x.to("cpu", non_blocking=True)  # PyTorch makes the target pinned
    assert simgpu.now() < records()[-1].end
    assert back.is_pinned()
    host = torch.empty(MB).pin_memory()
    host.copy_(x, non_blocking=True)
    assert simgpu.now() < records()[-1].end
    x.cpu()
    assert simgpu.now() == records()[-1].end


def test_what_is_not_pinned_is_copied_at_the_pace_of_the_host():
    host_link = LinkProfile("host", 1e9, "made up for these tests", latency=1e-3, pageable=1e8)
    simgpu.enable(count=1, host_link=host_link)
    pageable, pinned = torch.ones(MB), torch.ones(MB).pin_memory()
    size = pageable.numel() * pageable.element_size()
    on_gpu = [tensor.to("simgpu:0", non_blocking=wanted) for tensor in (pageable, pinned) for wanted in (False, True)]
    on_gpu[0].cpu()
    pinned.copy_(on_gpu[0])
    on_gpu[0].to("cpu", non_blocking=True)
    lengths = [record.end - record.start for record in records() if record.name == "copy"]
    slow, fast = 1e-3 + size / 1e8, 1e-3 + size / 1e9
    assert lengths == pytest.approx([slow, slow, fast, fast, slow, fast, fast])


def event_synchronized():
    event = torch.simgpu.Event()
    event.record()
    return event.synchronize


def asked_until_it_is_done():
    while not torch.simgpu.current_stream().query():
        pass


def another_stream_that_waited():
    stream = torch.simgpu.Stream("simgpu:0")
    stream.wait_stream(torch.simgpu.current_stream())
    stream.synchronize()


WAITS = {
    "device": lambda x: torch.simgpu.synchronize("simgpu:0"),
    "stream": lambda x: torch.simgpu.current_stream().synchronize(),
    "another stream that waited": lambda x: another_stream_that_waited(),
    "event": lambda x: event_synchronized()(),
    "asking": lambda x: asked_until_it_is_done(),
    "a copy that waits": lambda x: x.cpu(),
    "a value": lambda x: x[0].item(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_copy_to_the_host_is_unwaited_until_the_host_waits(wait):
    x, host = on(0), torch.empty(MB).pin_memory()
    x.to("cpu", non_blocking=True)
    host.copy_(x, non_blocking=True)
    first, second = simgpu.unwaited_copies()
    assert (first.device, first.bytes) == (0, 4 * MB)
    assert [copy.end for copy in (first, second)] == [record.end for record in records("d2h")]
    assert simgpu.unwaited_copies(since=first.launched) == [second]
    wait(x)
    assert simgpu.unwaited_copies() == []


def test_what_is_no_wait_for_a_copy_to_the_host():
    x, stream, early = on(0), torch.simgpu.Stream("simgpu:0"), torch.simgpu.Event()
    early.record()
    x.to("cpu", non_blocking=True)
    for other in (
        early.synchronize,
        stream.synchronize,
        lambda: stream.wait_stream(torch.simgpu.current_stream()),
        lambda: torch.simgpu.synchronize("simgpu:1"),
        torch.simgpu.current_stream().query,
        lambda: machine.clock.pay(10.0, 0),  # long enough, but by luck
        lambda: x + x,
    ):
        other()
        assert len(simgpu.unwaited_copies()) == 1


def test_copies_that_block_are_never_unwaited():
    x = on(0)
    x.cpu()
    torch.empty(MB).copy_(x, non_blocking=True)  # pageable memory
    torch.ones(MB).pin_memory().to("simgpu:0", non_blocking=True)  # the other way
    x.to("simgpu:1", non_blocking=True)
    assert simgpu.unwaited_copies() == []
    x.to("cpu", non_blocking=True)
    simgpu.enable(count=2)
    assert simgpu.unwaited_copies() == []


def test_memory_that_was_freed_is_no_longer_pinned():
    for _ in range(50):
        pinned = torch.ones(1000).pin_memory()
        del pinned
        assert not torch.ones(1000).is_pinned()


def test_backward_runs_on_the_stream_of_forward_and_waits_for_what_it_needs():
    stream = torch.simgpu.Stream("simgpu:0")
    x = torch.ones(MB, device="simgpu:0", requires_grad=True)
    stream.wait_stream(torch.simgpu.current_stream(0))
    with stream:
        y = x.exp()
    torch.simgpu.current_stream(0).wait_stream(stream)
    loss = (y * 2).sum()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss.backward()
    kernels = {(r.name, r.phase): r for r in records("kernel")}
    assert kernels["exp", "forward"].stream == 1
    backward = [r for r in records("kernel") if r.phase == "backward"]
    (exp_backward,) = [r for r in backward if r.stream == 1]
    assert exp_backward.name == "mul"  # the derivative of exp
    assert exp_backward.start >= max(
        r.end for r in backward if r is not exp_backward and r.stream == 0 and r.name == "mul"
    )


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("kind", ["of a parameter", "of a tensor"])
def test_what_a_hook_does_on_a_stream_of_its_own_waits_for_what_it_is_told_to(kind, waits):
    weight, side = on(0).requires_grad_(), torch.simgpu.Stream("simgpu:0")

    def send(given):
        gradient = given.grad if kind == "of a parameter" else given
        if waits:
            side.wait_stream(torch.simgpu.current_stream("simgpu:0"))
        with torch.simgpu.stream(side):
            gradient.to("simgpu:1", non_blocking=True)

    if kind == "of a parameter":
        weight.register_post_accumulate_grad_hook(send)
        product = weight * 3
    else:
        product = weight * 3
        product.register_hook(send)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        (product * 5).backward(torch.ones_like(product))
    [copy] = records("d2d")
    first, second = [r for r in records("kernel") if r.phase == "backward"]
    assert (copy.start >= (second if kind == "of a parameter" else first).end) is waits
    assert [warning.category for warning in told] == ([] if waits else [RuntimeWarning])


def test_backward_of_what_ran_on_default_streams_runs_there_whatever_is_current():
    stream, x = torch.simgpu.Stream("simgpu:0"), torch.ones(MB, device="simgpu:0", requires_grad=True)
    loss = x.exp().sum()
    torch.simgpu.synchronize()
    with stream:
        loss.backward()
    assert {r.stream for r in records("kernel") if r.phase == "backward" and r.name == "mul"} == {0}


def test_reading_what_another_stream_has_not_written_is_warned_of():
    stream, x = torch.simgpu.Stream("simgpu:0"), on(0)
    with stream:
        y = x + x
    words = "a kernel on the default stream reads a tensor that a kernel on stream 1 has not finished writing"
    with pytest.warns(RuntimeWarning, match=words):
        y * 2
    torch.simgpu.current_stream(0).wait_stream(stream)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y * 2
        y.view(-1)[0] + 1


def test_reads_of_what_is_not_written_are_listed_whatever_the_filter_of_warnings_is():
    stream, x = torch.simgpu.Stream("simgpu:0"), on(0)
    with stream:
        y = x + x
    with warnings.catch_warnings(), simgpu.unfinished_reads() as outer:
        warnings.simplefilter("ignore")
        with simgpu.unfinished_reads() as inner:
            y * 2
        torch.simgpu.current_stream(0).wait_stream(stream)
        y * 2
    [line] = inner
    assert "a kernel on the default stream reads a tensor that a kernel on stream 1 has not finished writing" in line
    assert outer == inner


def test_the_warning_says_who_copies_and_who_computes():
    giving, taking, x = torch.simgpu.Stream("simgpu:0"), torch.simgpu.Stream("simgpu:1"), on(0)
    made = x + x
    with giving, taking, pytest.warns(RuntimeWarning, match="a copy on stream 1 .* a kernel on the default stream"):
        y = made.to("simgpu:1")
    with pytest.warns(RuntimeWarning, match="a kernel on the default stream .* a copy on stream 1"):
        y * 2


@pytest.mark.parametrize(
    "look",
    [
        lambda y: y.split(4),
        lambda y: y[0],
        lambda y: y.view(-1),
        lambda y: y.detach(),
        lambda y: y.unbind(),
        lambda y: y.reshape(2, -1).t(),
        lambda y: y.expand(2, *y.shape),
        torch.empty_like,
    ],
)
def test_a_view_reads_nothing_and_what_reads_it_is_warned_of(look):
    stream, x = torch.simgpu.Stream("simgpu:0"), torch.ones(8, 100, device="simgpu:0")
    stream.wait_stream(torch.simgpu.current_stream(0))
    with stream:
        y = x + x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        view = look(y)
    if look is not torch.empty_like:
        with pytest.warns(RuntimeWarning, match="has not finished writing"):
            (view[0] if isinstance(view, tuple) else view) * 2


@pytest.mark.parametrize(
    "read",
    [
        lambda y: y * 2,
        lambda y: nn.functional.softmax(y, 0),
        lambda y: nn.Sequential(nn.Softmax(0))(y),
        lambda y: y.cpu(),
        lambda y: torch.add(y, y, out=torch.empty_like(y)),
    ],
)
def test_the_warning_names_the_users_line_also_where_pytorchs_code_is_between(read):
    stream, x = torch.simgpu.Stream("simgpu:0"), on(0)
    with stream:
        y = x + x
    with pytest.warns(RuntimeWarning, match="has not finished writing") as told:
        read(y)
    assert {warning.filename for warning in told} == {__file__}


def step(model, x, stream):
    torch.manual_seed(0)
    stream.wait_stream(torch.simgpu.current_stream(1))
    with stream:
        z = x.to("simgpu:1").exp()
    torch.simgpu.current_stream(1).wait_stream(stream)
    model(z).square().mean().backward()


def test_with_streams_too_every_run_gives_the_same_times():
    logs = []
    for _ in range(2):
        simgpu.enable(count=3)
        simgpu.enable(count=2, gpu=PLAIN, link=LINK)
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).to("simgpu:1")
        stream = torch.simgpu.Stream("simgpu:1")
        for _ in range(3):
            step(model, torch.randn(16, 64, device="simgpu:0"), stream)
        logs.append(simgpu.log())
    assert len(logs[0]) > 30
    assert logs[0] == logs[1]
    assert {r.stream for r in logs[0]} == {0, 1}


def test_values_do_not_depend_on_streams():
    torch.manual_seed(0)
    layer, x = nn.Linear(8, 8), torch.randn(4, 8)
    expected = layer(x)
    layer.to("simgpu:1")
    stream = torch.simgpu.Stream("simgpu:1")
    with stream:
        got = layer(x.to("simgpu:1"))
    stream.synchronize()
    assert torch.equal(got.cpu(), expected)


def test_utilization_is_the_share_of_the_last_sample_period_with_a_kernel():
    assert torch.simgpu.utilization(0) == 0
    x = on(0)
    for _ in range(100):
        x + x
    torch.simgpu.synchronize(0)
    assert torch.simgpu.utilization(0) == 100  # 100 kernels of 3 ms: busy for the last 1/6 s
    assert torch.simgpu.utilization(1) == 0
    machine.clock.pay(1 / 12, 0)  # the host does something else
    assert torch.simgpu.utilization(0) == 50
    simgpu.keep_log(0)
    try:
        with pytest.raises(RuntimeError, match=r"simgpu\.keep_log\(\) turns it on"):
            torch.simgpu.utilization(0)
    finally:
        simgpu.keep_log()
