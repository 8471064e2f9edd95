"""What kernels cost: the classes of operators, PyTorch's switches, and what is no kernel."""

import random
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

import simgpu
from simgpu import torch_private
from simgpu.profiles import GPUS, GpuProfile, add_gpu

DEVICE = "simgpu:0"


@pytest.fixture(autouse=True)
def afterwards():
    products = torch.backends.cuda.matmul.allow_tf32
    # In this context, because PyTorch's own test suite, which other tests here read, forbids to set flags outside.
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=True):
        yield
    torch.backends.cuda.matmul.allow_tf32 = products
    simgpu.enable(count=2)


def on(gpu, **settings):
    simgpu.enable(count=1, gpu=gpu, compute=False, **settings)


def kernels(work):
    """(name, seconds) of each kernel that some work starts."""
    before = len(simgpu.log())
    work()
    return [(kernel.name, kernel.end - kernel.start) for kernel in simgpu.log()[before:]]


def seconds(work):
    return sum(each for _, each in kernels(work))


def empty(*shape, **settings):
    return torch.empty(*shape, device=DEVICE, **settings)


def test_every_kernel_pays_a_ramp_and_a_product_a_longer_one():
    profile = GpuProfile("Ramp", 1e15, 1e15, 1e9, 1, "made up", efficiency=1, streams=1, shortest=1e-5)
    on(profile)
    x = empty(4, 4)
    assert seconds(lambda: x + x) == pytest.approx(1e-5, rel=1e-3)
    assert seconds(lambda: x @ x) == pytest.approx(3e-5, rel=1e-3)


def test_a_stream_takes_its_bytes_over_the_share_of_the_bandwidth():
    on("V100")
    x = empty(2**26)
    assert seconds(lambda: x + x) == pytest.approx(3 * 2**28 / (0.9 * 900e9) + 2e-6)


@pytest.mark.parametrize(
    ("turn", "product", "convolution"),
    [
        (lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True), True, True),
        (lambda: torch.set_float32_matmul_precision("high"), True, True),
        (lambda: torch.set_float32_matmul_precision("highest"), False, True),
        (lambda: torch.backends.cudnn.set_flags(_allow_tf32=False), False, False),
    ],
    ids=["matmul.allow_tf32", "high", "highest", "cudnn.allow_tf32 off"],
)
def test_a_switch_for_float32_is_heeded_by_the_next_call(turn, product, convolution):
    on("A100")
    x, weight, images = empty(4096, 4096), empty(256, 256, 3, 3), empty(64, 256, 28, 28)

    def times():
        return seconds(lambda: x @ x), seconds(lambda: functional.conv2d(images, weight))

    usual = times()
    assert times() == pytest.approx(usual)
    turn()
    changed = times()
    assert times() == pytest.approx(changed)
    assert (usual[0] / changed[0] > 4) == product  # products are not rounded unless asked for
    assert (changed[1] / usual[1] > 2) != convolution  # convolutions are, unless asked not to


def test_without_tensor_cores_for_it_no_switch_changes_anything():
    on("V100")
    x = empty(2048, 2048)
    before = seconds(lambda: x @ x)
    torch.backends.cuda.matmul.allow_tf32 = True
    assert seconds(lambda: x @ x) == pytest.approx(before)


@pytest.mark.parametrize(
    ("gpu", "dtype", "times"),
    [
        ("V100", torch.float16, 6.8),
        ("V100", torch.bfloat16, 1),
        ("GP100", torch.float16, 1),
        ("A100", torch.bfloat16, 13.8),
        ("2080Ti", torch.float16, 3.4),
    ],
)
def test_low_precision_is_fast_where_there_are_tensor_cores_for_it(gpu, dtype, times):
    profile = GPUS[gpu]
    assert profile.rate(dtype)[0] / profile.rate(torch.float32)[0] == pytest.approx(times, rel=0.02)


def test_winograd_is_for_three_by_three_without_stride_and_without_tensor_cores():
    on("V100")
    images = empty(32, 256, 28, 28)

    def rate(size, stride=1, dtype=torch.float32):
        x, weight = (t.to(dtype, memory_format=torch.channels_last) for t in (images, empty(256, 256, size, size)))
        out = functional.conv2d(x, weight, stride=stride, padding=size // 2)
        time = dict(kernels(lambda: functional.conv2d(x, weight, stride=stride, padding=size // 2)))["convolution"]
        return out.numel() * weight[0].numel() / time

    assert rate(3) / rate(5) == pytest.approx(1.8, rel=0.1)
    assert rate(3, stride=2) / rate(5) == pytest.approx(1, rel=0.1)
    assert rate(3, dtype=torch.float16) / rate(5, dtype=torch.float16) == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize(
    ("size", "dtype", "pays"), [(3, torch.float16, True), (1, torch.float16, False), (3, torch.float32, False)]
)
def test_on_tensor_cores_channels_first_are_brought_into_another_layout(size, dtype, pays):
    on("V100")
    images, weight = empty(32, 256, 28, 28, dtype=dtype), empty(256, 256, size, size, dtype=dtype)
    last = [t.to(memory_format=torch.channels_last) for t in (images, weight)]
    first = seconds(lambda: functional.conv2d(images, weight, padding=size // 2))
    more = first - seconds(lambda: functional.conv2d(*last, padding=size // 2))
    assert more == pytest.approx(4 * images.numel() * 2 / (0.9 * 900e9) if pays else 0, abs=1e-12)


def test_with_few_channels_half_precision_has_no_tensor_cores():
    on("V100")

    def times(channels, **layout):
        images, weight = empty(16, channels, 224, 224), empty(64, channels, 7, 7)
        operands = [
            (images.to(dtype, **layout), weight.to(dtype, **layout)) for dtype in (torch.float32, torch.float16)
        ]
        return [seconds(lambda x=x, w=w: functional.conv2d(x, w, stride=2)) for x, w in operands]

    single, half = times(1)
    assert 4 * single < half < 8 * single  # measured: 3 to 8 times as long
    single, half = times(3)
    assert single < half < 4 / 3 * single
    single, half = times(3, memory_format=torch.channels_last)
    assert half < single / 2
    single, half = times(8)
    assert half < single / 2


def test_depthwise_convolutions_compute_nothing_for_nothing():
    on("V100")
    images, weight = empty(32, 256, 28, 28), empty(256, 1, 3, 3)
    one_pass = 2 * images.numel() * 4 / (0.9 * 900e9)
    assert seconds(lambda: functional.conv2d(images, weight, padding=1, groups=256)) < 1.5 * one_pass


def test_a_transposed_convolution_is_the_gradient_of_another():
    on("V100")
    small, large, weight = empty(16, 64, 28, 28), empty(16, 32, 56, 56), empty(64, 32, 2, 2)
    large.requires_grad_()
    out = functional.conv2d(large, weight, stride=2)
    gradient = torch.empty_like(out)
    there = kernels(lambda: torch.autograd.grad(out, large, gradient))
    here = kernels(lambda: functional.conv_transpose2d(small, weight, stride=2))
    assert [time for _, time in here] == pytest.approx([time for _, time in there])


def test_norms_read_what_they_normalise_twice():
    on("V100")
    x = empty(4096, 4096)
    once = seconds(lambda: x * 2)
    assert seconds(lambda: functional.layer_norm(x, (4096,))) / once == pytest.approx(1.5, rel=0.01)
    images = empty(64, 64, 64, 64)
    norm = nn.BatchNorm2d(64, device=DEVICE)
    once = seconds(lambda: images * 2)
    assert dict(kernels(lambda: norm(images)))["native_batch_norm"] / once == pytest.approx(1.5, rel=0.01)
    norm.eval()
    assert dict(kernels(lambda: norm(images)))["native_batch_norm"] / once == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize(("row", "passes"), [(1024, 2), (2048, 2.5), (16384, 4)])
def test_a_softmax_reads_long_rows_more_than_once(row, passes):
    on("V100")
    x = empty(2**26 // row, row)
    assert seconds(lambda: x.softmax(-1)) / seconds(lambda: x * 2) == pytest.approx(passes / 2, rel=0.01)


def test_what_is_only_written_is_not_read():
    on("V100")
    x = empty(2**24)
    size = 4 * 2**24 / (0.9 * 900e9)
    assert seconds(lambda: x.zero_()) == pytest.approx(size, rel=0.05)
    assert seconds(lambda: torch.ones_like(x)) == pytest.approx(size, rel=0.05)


def test_out_costs_what_a_new_result_costs():
    on("V100")
    a, b, out = (empty(1000, 1000) for _ in range(3))
    largest = torch.topk(a, 3)
    assert seconds(lambda: torch.add(a, b, out=out)) == pytest.approx(seconds(lambda: a + b))
    assert seconds(lambda: torch.add(a, b, out=a)) == pytest.approx(seconds(lambda: a + b))
    assert seconds(lambda: torch.mm(a, b, out=out)) == pytest.approx(seconds(lambda: a @ b))
    assert seconds(lambda: torch.topk(a, 3, out=largest)) == pytest.approx(seconds(lambda: torch.topk(a, 3)))


def test_making_room_is_no_kernel():
    on("V100")
    x = empty(1000)
    assert kernels(lambda: (torch.empty_like(x), x.new_empty(10))) == []


def test_the_reshape_after_a_product_is_no_kernel_and_takes_no_memory():
    on("V100")
    x, weight = empty(8, 64, 256), empty(128, 256)
    bias = empty(128)
    held = torch.simgpu.memory_allocated()
    with torch.no_grad():
        outs = []
        assert [name for name, _ in kernels(lambda: outs.append(functional.linear(x, weight, bias)))] == ["addmm"]
    assert torch.simgpu.memory_allocated() - held == 8 * 64 * 128 * 4


def test_several_kernels_of_one_operator_are_launched_once():
    on("V100")
    layer, images = nn.Conv2d(8, 8, 3, device=DEVICE), empty(2, 8, 16, 16, requires_grad=True)
    out = layer(images)
    begin, gradient = simgpu.now(), torch.empty_like(out)
    ((name, _),) = kernels(lambda: torch.autograd.grad(out, [images, *layer.parameters()], gradient))
    assert name == "convolution_backward"
    assert simgpu.now() - begin == pytest.approx(GPUS["V100"].launch)


def test_the_profile_that_the_documentation_adds():
    add_gpu(GpuProfile("A10", 31.2e12, 600e9, 24e9, 72, "NVIDIA A10 datasheet", {torch.bfloat16: 125e12}))
    try:
        on("A10")
        x = empty(2048, 2048, dtype=torch.bfloat16)
        assert seconds(lambda: x @ x) > 0
    finally:
        del GPUS["A10"]


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_one_kernel_forward_and_one_backward(causal):
    on("A100")
    query, key, value = (empty(8, 16, 1024, 64, dtype=torch.float16, requires_grad=True) for _ in range(3))
    out = functional.scaled_dot_product_attention(query, key, value, is_causal=causal)
    held = torch.simgpu.max_memory_allocated()
    assert held < 10 * query.numel() * 2  # and no matrix of all pairs
    gradient = torch.empty_like(out)
    names = kernels(lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=causal))
    assert [name for name, _ in names] == ["attention"]
    pairs = 8 * 16 * 1024 * 1024 * (0.5 if causal else 1)
    assert 0.4 * 312e12 < 4 * 64 * pairs / names[0][1] < 0.73 * 312e12  # FlashAttention-2's span on an A100
    names = kernels(lambda: torch.autograd.grad(out, [query, key, value], gradient))
    assert [name for name, _ in names] == ["attention_backward"]


def test_grouped_queries_read_each_key_and_value_once():
    """A decode step is bound by these bytes: one kernel, and no copy of keys for each query head."""
    on("A100")
    query = empty(64, 32, 1, 128, dtype=torch.bfloat16)
    found = []
    for heads in (8, 32):
        key, value = (empty(64, heads, 4096, 128, dtype=torch.bfloat16) for _ in range(2))
        [(name, took)] = kernels(
            lambda key=key, value=value: functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)
        )
        assert name == "attention"
        found.append(took)
    assert found[1] / found[0] == pytest.approx(4, rel=0.05)


GROUPED = {"enable_gqa": True, "heads": 3}


@pytest.mark.parametrize(
    "settings",
    [{}, {"is_causal": True}, {"scale": 0.5}, {"mask": "bool"}, {"mask": "float"}, GROUPED, GROUPED | {"mask": "bool"}],
)
def test_attention_has_the_cpus_results_and_gradients(settings):
    simgpu.enable(count=2)
    torch.manual_seed(0)
    settings = dict(settings)
    there = [torch.randn(2, heads, 5, 4, requires_grad=True) for heads in (settings.pop("heads", 1) * 3, 3, 3)]
    here = [t.detach().to(DEVICE).requires_grad_() for t in there]
    mask = {"bool": torch.rand(5, 5) > 0.3, "float": torch.randn(5, 5)}.get(settings.pop("mask", None))
    results = []
    for operands in (there, here):
        given = None if mask is None else mask.to(operands[0].device)
        out = functional.scaled_dot_product_attention(*operands, attn_mask=given, **settings)
        gradients = torch.autograd.grad(out.square().sum(), operands)
        results.append([t.detach().cpu() for t in (out, *gradients)])
    torch.testing.assert_close(*results)


@pytest.mark.parametrize(("dtype", "kernel"), [(torch.float32, "efficient"), (torch.bfloat16, "flash")])
def test_blocks_of_attention_join_by_their_log_sum_exp(dtype, kernel):
    """PyTorch's kernels for CUDA by their names: two blocks of keys, merged, and the gradients of one of them."""
    simgpu.enable(count=1)
    torch.manual_seed(0)
    there = [torch.randn(2, heads, tokens, 8).to(dtype) for heads, tokens in ((4, 32), (2, 64), (2, 64))]
    query, key, value = (tensor.to(DEVICE).requires_grad_() for tensor in there)
    attend = getattr(torch.ops.aten, f"_scaled_dot_product_{kernel}_attention")
    more = () if kernel == "flash" else (None, True)

    def attended(begin, end):
        out, sums, *_ = attend(query, key[:, :, begin:end], value[:, :, begin:end], *more)
        return out, sums[..., None]

    (first, sums), (second, others) = attended(0, 32), attended(32, 64)
    merged = torch.lerp(first.float(), second.float(), torch.sigmoid(others - sums))
    expected = functional.scaled_dot_product_attention(*(t.float() for t in there), enable_gqa=True)
    torch.testing.assert_close(merged.detach().cpu(), expected, **CLOSE_IN[dtype])
    torch.testing.assert_close(attended(0, 64)[0].detach().cpu().float(), expected, **CLOSE_IN[dtype])
    whole = [tensor.float().requires_grad_() for tensor in there]
    functional.scaled_dot_product_attention(*whole, enable_gqa=True).square().sum().backward()
    attended(0, 64)[0].square().sum().backward()
    for ours, theirs in zip((query, key, value), whole, strict=True):
        torch.testing.assert_close(ours.grad.cpu().float(), theirs.grad, **CLOSE_IN[dtype])


CLOSE_IN = {torch.float32: {"rtol": 1e-5, "atol": 1e-6}, torch.bfloat16: {"rtol": 0.05, "atol": 0.05}}


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_of_attention_is_charged_as_attention(causal):
    """As one kernel, which writes a number for each query more; whole sequences of this size are bound by products."""
    on("A100")
    query, key, value = (empty(8, 16, 1024, 64, dtype=torch.float16, requires_grad=True) for _ in range(3))
    by_name = [
        lambda: functional.scaled_dot_product_attention(query, key, value, is_causal=causal),
        lambda: torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal)[0],
        lambda: torch.ops.aten._scaled_dot_product_efficient_attention(query, key, value, None, True, 0.0, causal)[0],
    ]
    took = []
    for call in by_name:
        [(_, forward)] = kernels(call)
        out = call()
        [(_, backward)] = kernels(lambda out=out: torch.autograd.grad(out, [query, key, value], torch.empty_like(out)))
        took.append([forward, backward])
    assert took[1] == pytest.approx(took[0], rel=0.1)
    assert took[2] == pytest.approx(took[1], rel=0.01)
    assert set(simgpu.unplanned()) == {"first call"}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_attention_in_half_precision_keeps_scores_in_float32(dtype):
    simgpu.enable(count=2)
    torch.manual_seed(0)
    query, key, value = (20 * torch.randn(1, 2, 16, 64).to(dtype) for _ in range(3))
    key *= 10  # float16 cannot hold the products of queries and keys
    results = []
    for device, computed_in in (("cpu", torch.float64), (DEVICE, dtype)):
        operands = [t.to(device, computed_in).requires_grad_() for t in (query, key, value)]
        out = functional.scaled_dot_product_attention(*operands, scale=1e-3)
        gradients = torch.autograd.grad(out, operands, torch.ones_like(out))
        results.append([t.detach().cpu().to(dtype) for t in (out, *gradients)])
    rounding = torch.finfo(dtype).eps
    for expected, got in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=rounding, atol=rounding * expected.abs().max().item())


def test_attention_drops_the_same_weights_in_both_passes():
    simgpu.enable(count=2)
    query, key = (torch.randn(1, 1, 6, 4).to(DEVICE) for _ in range(2))
    value = torch.eye(6)[None, None].to(DEVICE).requires_grad_()
    out = functional.scaled_dot_product_attention(query, key, value, dropout_p=0.5)  # the weights themselves
    (gradient,) = torch.autograd.grad(out, value, torch.eye(6)[None, None].to(DEVICE))
    assert (out == 0).any()
    torch.testing.assert_close(gradient.cpu(), out.detach().cpu().transpose(-2, -1))


@pytest.mark.parametrize("compute", [True, False])
def test_dropout_in_attention_keeps_a_seed_and_no_mask(compute):
    """An H200 kept no mask (utils/simgpu/benchmarks/data/h200)."""
    simgpu.enable(count=1, compute=compute)
    query = torch.ones(2, 2, 8, 4, device=DEVICE, requires_grad=True)
    held = []
    for dropout in (0.0, 0.5, 0.0):
        before = torch.simgpu.memory_allocated()
        out = functional.scaled_dot_product_attention(query, query, query, dropout_p=dropout)
        held.append(torch.simgpu.memory_allocated() - before)
        out.sum().backward()
        del out
    assert held == [512, 1024, 512]  # the result, in one block, and a seed, in another


@pytest.mark.parametrize("name", ["silu", "mish"])
def test_the_gradient_of_an_activation_is_one_kernel_with_the_cpus_values(name):
    activation = getattr(functional, name)
    on("A100")
    x, gradient = empty(2**20, requires_grad=True), empty(2**20)
    y = activation(x)
    [(kernel, took)] = kernels(lambda: torch.autograd.grad(y, x, gradient))
    [(_, of_a_product)] = kernels(lambda: torch.mul(x.detach(), gradient))
    assert (kernel, took) == (f"{name}_backward", of_a_product)  # both read two tensors and write one
    simgpu.enable(count=2)
    torch.manual_seed(0)
    there = torch.randn(1000, requires_grad=True)
    here = there.detach().to(DEVICE).requires_grad_()
    for differentiable in (False, True):
        (expected,) = torch.autograd.grad(activation(there).sum(), there, create_graph=differentiable)
        (found,) = torch.autograd.grad(activation(here).sum(), here, create_graph=differentiable)
        assert torch.equal(found.cpu(), expected)
    (expected,) = torch.autograd.grad(expected.sum(), there)
    (found,) = torch.autograd.grad(found.sum(), here)
    assert torch.equal(found.cpu(), expected)


# --- lists of tensors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "passes"),  # how often it reads or writes a tensor of the list
    [
        ("_foreach_mul_", [0.5], 2),
        ("_foreach_add_", ["list"], 3),
        ("_foreach_lerp_", ["list", 0.1], 3),
        ("_foreach_addcmul_", ["list", "list"], 4),
        ("_foreach_add", ["list"], 3),
        ("_foreach_sqrt", [], 2),
        ("_foreach_copy_", ["list"], 2),
        ("_foreach_zero_", [], 1),
    ],
)
def test_an_operator_on_a_list_is_one_kernel_that_reads_and_writes_what_it_changes(name, given, passes):
    on("V100")
    made = iter([[empty(2**20) for _ in range(8)] for _ in range(3)])
    first, *others = (next(made) if each == "list" else each for each in ["list", *given])
    call = getattr(torch, name)
    took = seconds(lambda: call(first, *others))
    assert took == pytest.approx(passes * 8 * 2**22 / (0.9 * 900e9) + 2e-6)


def test_a_fused_optimizer_reads_four_lists_and_writes_three():
    on("V100")
    weights = [empty(2**20, requires_grad=True) for _ in range(8)]
    for weight in weights:
        weight.grad = empty(2**20)
    optimizer = torch.optim.Adam(weights, fused=True)
    optimizer.step()
    (_, took) = next(each for each in kernels(optimizer.step) if each[0] == "_fused_adam_")
    assert took == pytest.approx((4 + 3) * 8 * 2**22 / (0.9 * 900e9) + 2e-6, rel=1e-4)  # and the numbers of steps


def launches_of_cuda(sizes, most):
    """multi_tensor_apply of PyTorch's MultiTensorApply.cuh, chunk by chunk."""
    launches = blocks = tensors = 0
    for size in sizes:
        if size == 0:
            continue
        tensors += 1
        chunks = size // 65536 + (size % 65536 != 0)
        for chunk in range(chunks):
            blocks += 1
            last = chunk == chunks - 1
            if blocks == 320 or (tensors == most and last):
                launches, blocks, tensors = launches + 1, 0, 0 if last else 1
    return launches + (blocks > 0)


@pytest.mark.parametrize("lists", [1, 2, 4])
def test_a_long_list_takes_as_many_kernels_as_on_cuda(lists):
    profile = GpuProfile("Ramp", 1e15, 1e15, 1e30, 1, "made up", efficiency=1, streams=1, shortest=1)
    on(profile, memory=10**15)
    chance = random.Random(lists)
    call = {1: torch._foreach_zero_, 2: torch._foreach_copy_, 4: torch._foreach_addcmul}[lists]
    found = set()
    for _ in range(25):
        kind = chance.choice([10**4, 10**6, 10**8])
        sizes = [chance.choice([0, 1, chance.randrange(kind), 320 * 65536]) for _ in range(chance.randrange(1, 250))]
        given = [[empty(size) for size in sizes] for _ in range(min(lists, 3))]
        count = launches_of_cuda(sizes, {1: 110, 2: 64, 4: 36}[lists])
        assert round(seconds(lambda given=given: call(*given))) == count
        found.add(count)
    assert len(found) > 5


@pytest.mark.skipif(torch_private.torch_version() < (2, 13), reason="this PyTorch has no shapes for its fused layer")
def test_an_encoder_layer_in_evaluation_costs_about_what_its_parts_cost():
    simgpu.enable(count=1, gpu="V100", compute=False)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, device="simgpu:0").eval()
    x = torch.empty(16, 256, 512, device="simgpu:0")

    def seconds():
        begin = simgpu.now()
        with torch.no_grad():
            layer(x)
        return sum(record.end - record.start for record in simgpu.log(begin))

    whole = seconds()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        parts = seconds()
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    assert 0.8 * parts < whole < parts  # the activation and a sum are in the kernels of products


# --- recurrent layers: one call of cuDNN's -----------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}])
def test_a_recurrent_layer_is_one_launch_forward_and_one_backward(kind, options):
    on("V100")
    layer = kind(64, 64, device=DEVICE, **options)
    x, states = empty(25, 16, 64), empty(layer.num_layers * (1 + layer.bidirectional), 25 if options else 16, 64)
    states = (states, states) if kind is nn.LSTM else states
    out = []
    forward = kernels(lambda: out.append(layer(x, states)[0]))
    gradient = torch.empty_like(out[0])
    backward = kernels(lambda: torch.autograd.grad(out, list(layer.parameters()), gradient))
    assert [name for name, _ in forward + backward] == ["_cudnn_rnn", "_cudnn_rnn_backward"]
    assert len(kernels(lambda: x + 1)) == 1
    records = [record for record in simgpu.log() if "cudnn" in record.name]
    assert {(record.module, record.phase) for record in records} == {
        (kind.__name__, "forward"),
        (kind.__name__, "backward"),
    }


def test_what_a_recurrent_layer_takes():
    on("V100")
    lstm, sequence = nn.LSTM(512, 1024, device=DEVICE), empty(50, 32, 512)
    whole = dict(kernels(lambda: lstm(sequence)))["_cudnn_rnn"]
    assert simgpu.log()[-1].flops == 2 * 50 * 32 * 4096 * (512 + 1024)
    inputs = seconds(lambda: empty(50 * 32, 512) @ empty(512, 4096))
    steps = 50 * seconds(lambda: empty(32, 1024) @ empty(1024, 4096))
    assert inputs + steps < whole < inputs + 2 * steps


def test_a_cell_in_a_loop_is_launched_step_by_step():
    on("V100")
    cell, x = nn.LSTMCell(64, 64, device=DEVICE), empty(16, 64)
    assert len(kernels(lambda: cell(x, (x, x)))) > 2


def test_a_packed_sequence_costs_what_its_steps_have():
    simgpu.enable(count=1, gpu="V100")
    lstm, whole = nn.LSTM(64, 64).to(DEVICE), torch.randn(20, 64, 64).to(DEVICE)
    packed = nn.utils.rnn.pack_padded_sequence(whole, torch.arange(20, 4, -0.25).long())
    took = [dict(kernels(partial(lstm, x)))["_cudnn_rnn"] for x in (whole, packed)]
    assert 0.5 * took[0] < took[1] < took[0]


def test_a_backward_pass_that_fails_within_a_recurrent_layer_leaves_later_kernels_charged():
    simgpu.enable(count=1)
    lstm, x = nn.LSTM(4, 4).to(DEVICE), torch.randn(3, 2, 4).to(DEVICE).requires_grad_()
    lstm.weight_hh_l0.register_hook(lambda gradient: 1 / 0)
    out = lstm(x)[0].sum()
    with pytest.raises(ZeroDivisionError):
        out.backward()
    assert len(kernels(lambda: x + 1)) == 1


def test_a_checkpoint_charges_a_recurrent_layer_again():
    from torch.utils.checkpoint import checkpoint

    simgpu.enable(count=1)
    lstm, linear, x = nn.LSTM(4, 4).to(DEVICE), nn.Linear(4, 4).to(DEVICE), torch.randn(3, 2, 4).to(DEVICE)
    states = torch.zeros(1, 2, 4).to(DEVICE)
    out = checkpoint(lambda x: lstm(linear(x), (states, states))[0], x, use_reentrant=False).sum()
    names = [name for name, _ in kernels(out.backward)]
    assert [name for name in names if name in ("addmm", "_cudnn_rnn", "_cudnn_rnn_backward")] == [
        "addmm", "_cudnn_rnn", "_cudnn_rnn_backward",
    ]  # fmt: skip


# --- without autograd -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda x: functional.linear(x, empty(256, 256)),
        lambda x: functional.conv2d(x.view(4, 4, 64, 64), empty(8, 4, 3, 3)),
        lambda x: functional.scaled_dot_product_attention(*[x.view(1, 4, 64, 256)] * 3),
        lambda x: functional.layer_norm(x, (256,)),
        lambda x: nn.LSTM(256, 8, device=DEVICE)(x.view(16, 16, 256))[0],
    ],
    ids=["linear", "convolution", "attention", "layer norm", "LSTM"],
)
def test_inference_mode_costs_what_no_grad_costs(call):
    on("V100")
    x, found = empty(256, 256), []
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            found.append(kernels(lambda: call(x.clone())))
    (names, times), others = zip(*found[0], strict=True), zip(*found[1], strict=True)
    assert [names, pytest.approx(times)] == list(others)
