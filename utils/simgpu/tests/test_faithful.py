"""What else people do on CUDA: autocast, lazy modules, checkpoints, hooks, loaders, CUDA's names."""

import copy
import io
import multiprocessing
import pickle

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

import simgpu
from simgpu import torch_private
from simgpu.profiles import GPUS, LINKS


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    torch.manual_seed(0)
    yield
    simgpu.enable(count=2)


def net():
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def loaded(value, **kwargs):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **kwargs)


# --- precision ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_computes_products_in_the_lower_precision_and_sums_in_float32(dtype):
    here = net()
    there = copy.deepcopy(here).to("simgpu:1")
    x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])
    results = []
    for model, device in ((here, "cpu"), (there, "simgpu:1")):
        with torch.autocast(torch.device(device).type, dtype=dtype):
            out = model(x.to(device))
            loss = nn.functional.cross_entropy(out, y.to(device))
        loss.backward()
        results.append((out, loss, model[0].weight.grad))
    (out, loss, gradient), (expected_out, expected_loss, expected_gradient) = results[1], results[0]
    assert (out.dtype, loss.dtype, gradient.dtype) == (dtype, torch.float32, torch.float32)
    torch.testing.assert_close(out.cpu(), expected_out, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(loss.cpu(), expected_loss.float(), atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(gradient.cpu(), expected_gradient, atol=2e-2, rtol=5e-2)
    with torch.autocast("simgpu", dtype=dtype):
        assert torch.cat([out, loss.reshape(1, 1).expand(1, 3)]).dtype == torch.float32  # the widest
    assert there(x.to("simgpu:1")).dtype == torch.float32


def test_autocast_takes_the_time_of_the_lower_precision():
    simgpu.enable(count=1, gpu="V100", compute=False)
    layer, x = nn.Linear(4096, 4096, device="simgpu:0"), torch.empty(4096, 4096, device="simgpu:0")
    layer(x)
    with torch.autocast("simgpu", dtype=torch.float16):
        layer(x)
    layer.half()(x.half())
    wide, narrow, half = (r.end - r.start for r in simgpu.log() if r.name == "addmm")
    assert narrow == pytest.approx(half, rel=1e-9)
    assert wide / narrow > 6  # V100's two peaks: 125 and 15.7


def test_gradient_scaler():
    layer = nn.Linear(4, 2, device="simgpu:0")
    optimizer, scaler = torch.optim.SGD(layer.parameters(), lr=0.1), torch.amp.GradScaler("simgpu")
    before = layer.weight.detach().cpu()
    scaler.scale(layer(torch.ones(3, 4, device="simgpu:0")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(before - layer.weight.detach().cpu(), torch.full((2, 4), 0.3))


# --- modules ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["moved", "made there", "moved back"])
def test_lazy_modules(place):
    if place == "made there":
        model = nn.Sequential(nn.LazyLinear(8, device="simgpu:1"), nn.LazyBatchNorm1d(device="simgpu:1"))
    else:
        model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d()).to("simgpu:1")
    device = "cpu" if place == "moved back" else "simgpu:1"
    model.to(device)
    out = model(torch.randn(4, 5, device=device))
    assert all(t.device == torch.device(device) for t in (*model.parameters(), *model.buffers()))
    assert isinstance(model[0], nn.Linear)
    out.square().sum().backward()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.step()
    assert model[0].weight.grad.device == torch.device(device)


def test_hooks_see_the_device():
    seen = []
    layer = nn.Linear(4, 4, device="simgpu:1")
    layer.register_forward_pre_hook(lambda module, args: seen.append(args[0].device))
    layer.register_forward_hook(lambda module, args, out: seen.append(out.device))
    layer.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(grad_out[0].device))
    layer.weight.register_hook(lambda gradient: seen.append(gradient.device))
    layer.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.device))
    layer(torch.ones(2, 4, device="simgpu:1", requires_grad=True)).sum().backward()
    assert seen == [torch.device("simgpu:1")] * 5


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_recomputes_and_saves_memory(reentrant):
    layers = nn.ModuleList([nn.Linear(256, 256, device="simgpu:0") for _ in range(4)])
    gradients, peaks = [], []
    for recompute in (False, True):
        layers.zero_grad()
        torch.simgpu.reset_peak_memory_stats(0)
        x = torch.ones(2048, 256, device="simgpu:0", requires_grad=True)
        out = x
        for layer in layers:
            block = lambda t, layer=layer: layer(t).tanh().exp().tanh().exp()  # noqa: E731
            out = checkpoint(block, out, use_reentrant=reentrant) if recompute else block(out)
        out.mean().backward()
        gradients.append([p.grad.cpu() for p in layers.parameters()])
        peaks.append(torch.simgpu.max_memory_allocated(0))
        del out, x
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))
    assert peaks[1] < 0.7 * peaks[0]


def test_views_written_in_place_keep_the_graph():
    here, there = torch.ones(4, 4, requires_grad=True), torch.ones(4, 4, device="simgpu:1", requires_grad=True)
    for x in (here, there):
        y = x * 2
        y[1].mul_(3)
        y.t()[0].add_(y.t()[1].detach())
        y.sum().backward()
    assert torch.equal(here.grad, there.grad.cpu())


def test_detached_tensors_share_numbers_but_not_shapes():
    x = torch.zeros(2, 3, device="simgpu:0")
    y = x.detach()
    y.add_(1)
    assert x.sum().item() == 6
    y.t_()
    assert (tuple(x.shape), tuple(y.shape)) == ((2, 3), (3, 2))
    assert torch.equal((x + x).cpu(), torch.full((2, 3), 2.0))


def test_functional_transforms():
    x = torch.randn(3, 4, device="simgpu:1")
    f = lambda row: (row.sin() * row).sum()  # noqa: E731
    assert torch.allclose(torch.vmap(f)(x).cpu(), torch.vmap(f)(x.cpu()))
    assert torch.allclose(torch.func.grad(f)(x[0]).cpu(), torch.func.grad(f)(x[0].cpu()))


def test_packed_sequences():
    rnn = nn.LSTM(4, 5, batch_first=True)
    x, lengths = torch.randn(2, 3, 4), torch.tensor([3, 2])
    outputs = []
    for device in ("cpu", "simgpu:1"):
        rnn.to(device)
        packed = nn.utils.rnn.pack_padded_sequence(x.to(device), lengths, batch_first=True)
        assert packed.batch_sizes.device.type == "cpu"
        out, sizes = nn.utils.rnn.pad_packed_sequence(rnn(packed)[0], batch_first=True)
        outputs.append(out.detach().cpu())
        assert torch.equal(sizes, lengths)
    torch.testing.assert_close(*outputs)


# --- files and loaders ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_on", ["cpu", "simgpu:0"])
@pytest.mark.parametrize("wanted_on", ["cpu", "simgpu:1", {"cpu": "simgpu:1", "simgpu:0": "simgpu:1"}])
def test_a_checkpoint_is_loaded_where_it_is_wanted(made_on, wanted_on):
    state = net().to(made_on).state_dict()
    got = loaded(state, map_location=wanted_on, weights_only=True)
    expected = torch.device("cpu" if wanted_on == "cpu" else "simgpu:1")
    assert all(tensor.device == expected for tensor in got.values())
    assert all(torch.equal(got[name].cpu(), tensor.cpu()) for name, tensor in state.items())
    net().to("simgpu:0").load_state_dict(got)


def test_what_shares_memory_in_a_file_shares_it_on_the_device():
    x = torch.arange(1000.0)
    before = torch.simgpu.memory_allocated(1)
    got = loaded({"all": x, "some": x[10:20]}, map_location="simgpu:1")
    assert torch.simgpu.memory_allocated(1) - before == 4096
    got["some"].zero_()
    assert got["all"][10:20].sum().item() == 0


@pytest.mark.parametrize("pin", [False, True])
def test_data_loader(pin):
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    total = 0.0
    for x, y in DataLoader(data, batch_size=4, pin_memory=pin):
        total += x.to("simgpu:0", non_blocking=pin).sum().item() + y.to("simgpu:0").sum().item()
    assert total == 66 + 15


# --- questions to the device ------------------------------------------------------------------------------------


def test_the_accelerator_answers():
    x = torch.ones(1000, device="simgpu:1")
    x + x
    torch.accelerator.set_device_index(1)
    try:
        assert torch.accelerator.current_device_index() == torch.simgpu.current_device() == 1
        torch.accelerator.synchronize()
        assert simgpu.now() >= simgpu.log()[-1].end
        assert torch.accelerator.memory_allocated() == torch.simgpu.memory_allocated(1) > 0
        assert torch.accelerator.current_stream() == torch.simgpu.current_stream()
    finally:
        torch.accelerator.set_device_index(0)


def test_the_names_of_torch_cuda():
    names = """
        synchronize device_count is_available current_device set_device device Stream stream current_stream Event
        memory_allocated max_memory_allocated reset_peak_memory_stats memory_summary mem_get_info empty_cache
        get_device_properties get_device_name can_device_access_peer manual_seed utilization
    """
    for name in names.split():
        assert hasattr(torch.cuda, name)
        assert hasattr(torch.simgpu, name)
    assert torch.simgpu.get_device_properties(0).total_memory == 16_000_000_000
    assert torch.simgpu.get_device_properties(0).multi_processor_count == 80
    assert torch.simgpu.can_device_access_peer(0, 1)
    assert not torch.simgpu.can_device_access_peer(1, 1)
    assert "Peak memory" in torch.simgpu.memory_summary(1)
    with torch.simgpu.device(1):
        assert torch.empty(1, device="simgpu").device == torch.device("simgpu:1")
    torch.simgpu.manual_seed(7)
    a = torch.rand(3, device="simgpu:0")
    torch.manual_seed(7)
    assert torch.equal(a.cpu(), torch.rand(3))


# --- the log ---------------------------------------------------------------------------------------------------


def test_the_log_is_bounded_and_can_be_off():
    x = torch.ones(4, device="simgpu:0")
    simgpu.keep_log(3)
    try:
        for _ in range(10):
            x + x
        assert len(simgpu.log()) == 3
        simgpu.keep_log(0)
        x + x
        assert simgpu.log() == []
    finally:
        simgpu.keep_log()


# --- code written for CUDA --------------------------------------------------------------------------------------


def train_on_cuda():
    """As it stands in a tutorial: nothing here knows of simulated GPUs."""
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 2
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 8).to("cuda:0")
            self.second = nn.LSTM(8, 2).cuda(1)

        def forward(self, x):
            return self.second(self.first(x.to("cuda:0")).to("cuda:1"))[0]

    model = Model()
    optimizer = torch.optim.Adam(model.parameters())
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    out = model(torch.randn(5, 3, 4, device=device))
    assert out.is_cuda
    assert out.device == torch.device("cuda:1")
    out.sum().backward()
    optimizer.step()
    end.record()
    torch.cuda.synchronize("cuda:1")
    torch.cuda.synchronize(device)
    assert start.elapsed_time(end) > 0
    assert model.first.weight.grad.device == device
    assert torch.cuda.memory_allocated(0) > 0
    stream = torch.cuda.Stream(device=device)
    with torch.cuda.stream(stream):
        y = torch.ones(2, device="cuda")
    torch.cuda.current_stream().wait_stream(stream)
    assert isinstance(torch.cuda.current_stream(), torch.cuda.Stream)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert model.first(torch.ones(1, 4).cuda()).dtype == torch.bfloat16
    assert loaded({"y": y.cpu()}, map_location="cuda:1")["y"].device == torch.device("cuda:1")
    with torch.device("cuda"):
        assert torch.zeros(1).device == torch.device("cuda:0")
    return out


def test_code_for_cuda_runs_verbatim_and_nothing_stays_patched():
    kinds = (torch.cuda, torch.autocast, torch.amp.GradScaler)
    before = [dict(vars(kind)) for kind in kinds]

    def as_before():
        # PyTorch may have imported another module of torch.cuda meanwhile, which is none of ours.
        return [{name: vars(kind).get(name) for name in known} for kind, known in zip(kinds, before, strict=True)]

    with simgpu.as_cuda():
        out = train_on_cuda()
    assert out.device == torch.device("simgpu:1")
    assert not out.is_cuda
    assert as_before() == before
    with pytest.raises(ZeroDivisionError), simgpu.as_cuda():
        _ = 1 / 0
    assert as_before() == before


def test_hooks_of_a_backward_pass_read_cuda_too():
    seen = []
    with simgpu.as_cuda():
        linear = torch.nn.Linear(2, 2).to("cuda:1")
        linear.weight.register_hook(lambda gradient: seen.append(gradient.device))
        linear.weight.register_post_accumulate_grad_hook(lambda weight: seen.append(weight.device))
        linear.register_full_backward_hook(lambda _, __, gradients: seen.append(gradients[0].device))
        linear(torch.ones(1, 2, device="cuda:1")).sum().backward()
        loss = linear(torch.ones(1, 2, device="cuda:1")).sum()
        torch.autograd.grad(loss, linear.weight)
        torch.autograd.backward(linear(torch.ones(1, 2, device="cuda:1")).sum())
    assert len(seen) == 8
    assert set(seen) == {torch.device("cuda:1")}


def test_the_cell_magic():
    from IPython.testing.globalipapp import start_ipython

    shell = start_ipython()
    shell.run_cell("import simgpu; import torch; simgpu.enable(count=2)").raise_error()
    shell.run_cell("%%as_cuda\nx = torch.ones(2, 2).cuda(1)\nwhere = str(x.device)\nx.sum().item()").raise_error()
    assert shell.user_ns["where"] == "cuda:1"
    assert shell.user_ns["_"] == 4.0
    assert shell.user_ns["x"].device == torch.device("simgpu:1")
    failed = shell.run_cell("%%as_cuda\ntorch.ones(2).cuda(0) + torch.ones(2).cuda(1)")
    assert "Expected all tensors to be on the same device" in str(failed.error_in_exec)


# --- profiles from measurements -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["GP100", "V100", "A100"])
def test_measuring_a_simulated_gpu_finds_the_profile_it_was_made_from(name):
    simgpu.enable(count=2, gpu=name, link="nvlink2", compute=False)
    known, found = GPUS[name], simgpu.measure_profile("simgpu:1")
    assert found.flops * found.efficiency == pytest.approx(known.flops * known.efficiency, rel=0.01)
    assert found.bandwidth * found.streams == pytest.approx(known.bandwidth * known.streams, rel=0.02)
    assert set(found.fast) == set(known.fast)
    for dtype in known.fast:
        assert found.rate(dtype)[0] == pytest.approx(known.rate(dtype)[0], rel=0.05)
    assert found.rate(torch.float32, tf32=True)[0] == pytest.approx(known.rate(torch.float32, tf32=True)[0], rel=0.05)
    assert found.launch == pytest.approx(known.launch, rel=0.01)
    assert found.shortest == pytest.approx(known.shortest, rel=0.01)
    assert (found.memory, found.multiprocessors) == (known.memory, known.multiprocessors)
    link = simgpu.measure_link("simgpu:0", "simgpu:1")
    assert link.bandwidth == pytest.approx(LINKS["nvlink2"].bandwidth, rel=0.01)
    assert link.latency == pytest.approx(LINKS["nvlink2"].latency, rel=0.01)
    simgpu.enable(count=2, gpu=found, link=link)
    assert torch.simgpu.get_device_name(0) == f"{name} (simulated) (measured) (simulated)"


def test_measuring_the_link_to_the_host_finds_both_of_its_speeds():
    known = LINKS["pcie4"]
    simgpu.enable(count=2, host_link=known, compute=False)
    found = simgpu.measure_link("cpu", "simgpu:1")
    assert found.bandwidth == pytest.approx(known.bandwidth, rel=0.01)
    assert found.pageable == pytest.approx(known.pageable, rel=0.01)
    assert found.latency == pytest.approx(known.latency, rel=0.01)


# --- what code for CUDA asks, and once got a wrong answer to without an error ---------------------------------------


def test_each_tensor_has_an_address_of_its_own_and_a_view_lies_in_its_tensor():
    for compute in (True, False):
        simgpu.enable(count=1, compute=compute)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)).to("simgpu")
        model[1].weight = model[0].weight
        assert len({p.data_ptr() for p in [*model[0].parameters(), *model[1].parameters()]}) == 3
        weight = model[0].weight.detach()
        assert weight[1].data_ptr() == weight.data_ptr() + 3 * 4
        assert torch.empty(0, device="simgpu").data_ptr() == 0


def test_the_modules_of_torch_cuda_answer_as_torch_cuda_does():
    with simgpu.as_cuda():
        kept = torch.ones(1000, device="cuda")
        assert torch.cuda.memory.memory_allocated() == torch.cuda.memory_allocated() == 4096
        assert torch.cuda.memory.max_memory_allocated() == 4096
        torch.cuda.random.manual_seed(3)
        state = torch.cuda.random.get_rng_state()
        first = torch.rand(3, device="cuda")
        torch.cuda.random.set_rng_state(state)
        assert torch.equal(torch.rand(3, device="cuda").cpu(), first.cpu())
        torch.cuda.ipc_collect()
    del kept


@pytest.mark.parametrize(("gpu", "capability"), [("T4", (7, 5)), ("V100", (7, 0)), ("A100", (8, 0)), ("H100", (9, 0))])
def test_a_product_has_its_compute_capability(gpu, capability):
    simgpu.enable(count=1, gpu=gpu)
    with simgpu.as_cuda():
        properties = torch.cuda.get_device_properties(0)
        assert torch.cuda.get_device_capability() == capability == (properties.major, properties.minor)
        assert torch.cuda.is_bf16_supported(including_emulation=False) == (capability >= (8, 0))
        assert torch.cuda.is_bf16_supported()


def test_autocast_is_on_where_code_asks_for_it_by_cuda():
    with simgpu.as_cuda():
        x = torch.ones(3, device="cuda", requires_grad=True)
        assert not torch.is_autocast_enabled("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            assert torch.is_autocast_enabled("cuda")
            assert torch.is_autocast_enabled()
            assert torch.get_autocast_dtype("cuda") is torch.bfloat16
            assert x.clone().dtype is torch.float32


def test_a_function_of_ones_own_is_given_what_autocast_casts():
    with simgpu.as_cuda():

        class Cast(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float16)
            def forward(ctx, x):
                return x * 1

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, gradient):
                return gradient

        x = torch.ones(3, device="cuda", requires_grad=True)
        assert Cast.apply(x).dtype is torch.float32
        with torch.autocast("cuda", dtype=torch.float16):
            assert Cast.apply(x).dtype is torch.float16


def test_threads_that_begin_inside_see_cuda_too():
    from concurrent.futures import ThreadPoolExecutor

    def made():
        x = torch.ones(2, device="cuda:1")
        return x.device, x.sum().item()

    with simgpu.as_cuda(), ThreadPoolExecutor(2) as pool:
        found = [each.result() for each in [pool.submit(made) for _ in range(4)]]
    assert found == [(torch.device("cuda:1"), 2.0)] * 4


@pytest.mark.parametrize(
    ("does", "says"),
    [
        (lambda: torch.cuda.caching_allocator_alloc(512), "no caching allocator"),
        (lambda: torch.cuda.cudart(), "there is no CUDA here: simgpu stands in for it"),
    ],
)
def test_what_has_no_simulated_form_says_so_and_not_that_a_driver_is_missing(does, says):
    with simgpu.as_cuda(), pytest.raises(RuntimeError, match=says) as refused:
        does()
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.skipif(not hasattr(torch.distributed, "ProcessGroupNCCL"), reason="PyTorch without NCCL")
def test_a_group_of_nccls_own_class_is_refused():
    kind = torch.distributed.ProcessGroupNCCL
    with simgpu.as_cuda(), pytest.raises(RuntimeError, match=r"there is no NCCL here: .* new_group") as refused:
        kind(torch.distributed.HashStore(), 0, 1, kind.Options())
    assert len(str(refused.value).splitlines()) == 1


def test_the_default_device_may_be_named_cuda():
    with simgpu.as_cuda():
        torch.set_default_device("cuda")
        try:
            assert torch.ones(2).device == torch.device("cuda:0")
        finally:
            torch.set_default_device(None)


@pytest.mark.skipif(not torch_private.has_python_backends(), reason="its torch.distributed knows no simulated GPUs")
@pytest.mark.parametrize("shared", [False, True])
def test_a_checkpoints_stager_copies_numbers(shared):
    """An async_save wrote memory that had not been set."""
    from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

    whole = torch.arange(6.0, device="simgpu:0")
    state = {"part": whole[2:4], "turned": whole.view(2, 3).t(), "same": whole, "cpu": torch.ones(2), "step": 3}
    for options in (StagingOptions(False, shared, False, False), StagingOptions(use_shared_memory=shared)):
        stager = DefaultStager(options)
        staged = stager.stage(state)
        staged = staged.result() if options.use_async_staging else staged
        stager.close()
        whole.add_(1)
        assert staged["part"].is_cpu
        assert staged["part"].is_shared() == shared
        assert staged["part"].tolist() == [2, 3]
        assert staged["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]
        assert (staged["cpu"].tolist(), staged["step"]) == ([1, 1], 3)
        whole.sub_(1)


@pytest.mark.skipif(not torch_private.has_python_backends(), reason="its torch.distributed knows no simulated GPUs")
def test_plain_tensors_of_code_for_cuda_go_into_a_checkpoint_and_come_back(tmp_path):
    import torch.distributed.checkpoint as dcp

    with simgpu.as_cuda():
        whole = torch.arange(6.0, device="cuda:1")
        state = {"part": whole[2:4].clone(), "turned": whole.view(2, 3).t(), "half": whole.half(), "cpu": torch.ones(2)}
        expected = {name: tensor.tolist() for name, tensor in state.items()}
        dcp.save(state, checkpoint_id=tmp_path, no_dist=True)
        for tensor in state.values():
            tensor.zero_()
        dcp.load(state, checkpoint_id=tmp_path, no_dist=True)
    assert {name: tensor.tolist() for name, tensor in state.items()} == expected


@pytest.mark.parametrize("of", ["cpu", "simgpu:0", "simgpu:1"])
def test_the_class_of_a_parameter_makes_parameters(of):
    """As Accelerate's dispatch_model does, with whatever it moves to another device."""
    parameter = torch.nn.Linear(2, 2).to("simgpu:0").weight
    made = type(parameter)(torch.ones(2, 2, device=of), requires_grad=True)
    assert isinstance(made, torch.nn.Parameter)
    assert (made.device, made.requires_grad, made.is_leaf) == (torch.device(of), True, True)
    assert not type(parameter)(torch.ones(2, 2, device=of)).requires_grad
    moved = type(parameter)(torch.ones(2, 2, device=of), requires_grad=True).to("simgpu:1")
    (moved * 2).sum().backward()
    assert moved.device == torch.device("simgpu:1")


def test_masked_fill_takes_a_number_from_the_cpu_and_no_mask():
    x = torch.arange(4.0, device="simgpu:0")
    filled = x.masked_fill(x > 1, torch.tensor(7.0))
    assert filled.tolist() == [0, 1, 7, 7]
    x.masked_fill_(x > 1, torch.tensor(8.0))
    assert x.tolist() == [0, 1, 8, 8]
    with pytest.raises(RuntimeError, match="same device"):
        x.masked_fill(torch.ones(4, dtype=torch.bool), torch.tensor(7.0))
    with pytest.raises(RuntimeError, match="same device"):
        x.masked_fill(x > 1, torch.tensor(7.0, device="simgpu:1"))


def test_a_device_by_its_number_is_one_of_cudas():
    with simgpu.as_cuda():
        assert torch.device(1) == torch.device("cuda", 1)
        assert torch.ones(2).to(torch.device(1)).device == torch.device("cuda:1")


@pytest.mark.parametrize("device", ["cpu", "simgpu:0"])
@pytest.mark.parametrize("foreach", [True, False])
def test_an_update_between_forward_and_backward_is_an_error(device, foreach):
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to(device)
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1, foreach=foreach)
    rows = torch.ones(2, 4, device=device)
    layers(rows).sum().backward()
    loss = layers(rows).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_large_shapes_that_do_not_go_together_are_refused_in_the_words_of_the_operator():
    small, large = torch.ones(32, 1000, device="simgpu:0"), torch.ones(32, 2000, device="simgpu:0")
    with pytest.raises(RuntimeError, match=r"The size of tensor a \(1000\) must match the size of tensor b \(2000\)"):
        small + large


VIEWS = {
    "detach": lambda x: x.detach(),
    "a row": lambda x: x[0],
    "a slice": lambda x: x[:, :2],
    "transpose": lambda x: x.transpose(0, 1),
    "view": lambda x: x.view(-1),
    "reshape": lambda x: x.reshape(8, 2),
    "expand": lambda x: x[None].expand(3, 4, 4),
    "chunk": lambda x: x.chunk(2)[1],
    "rows": lambda x: list(x)[1],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("made", ["before", "inside"])
@pytest.mark.parametrize("device", ["cpu", "simgpu:0"])
def test_a_view_in_inference_mode_is_as_ordinary_as_its_tensor(device, made, view):
    numbers = torch.arange(16.0).view(4, 4)
    x = nn.Parameter(numbers.to(device))
    with torch.inference_mode():
        base = x if made == "before" else x * 1
        for _ in range(2):  # the second is planned
            found = VIEWS[view](base)
            assert found.is_inference() == (made == "inside")
            assert found.cpu().equal(VIEWS[view](numbers))
    if made == "before":
        assert (found.detach() * x.sum()).requires_grad


def test_a_parameter_is_turned_in_place_in_inference_mode():
    x = torch.ones(2, 3, device="simgpu:0")
    with torch.inference_mode():
        x.t_()
    assert x.shape == (3, 2)
    assert not x.is_inference()


def test_a_model_on_a_gpu_is_not_shared_with_another_process():
    model = nn.Linear(2, 2).to("simgpu:0").share_memory()
    started = multiprocessing.get_context("spawn").Process(target=print, args=(model,))
    with pytest.raises(RuntimeError, match=r"shares no memory with another process.*tensor\.cpu\(\)"):
        started.start()
    assert pickle.loads(pickle.dumps(model)).weight.device == torch.device("simgpu:0")  # a copy, and no sharing
