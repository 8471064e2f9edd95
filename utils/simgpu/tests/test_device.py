"""The simulated device: placement, values and gradients as on the CPU, PyTorch's own errors."""

import copy
import importlib
import io
import pkgutil
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn

import simgpu
from simgpu.hardware import machine


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    torch.manual_seed(0)


# --- making tensors -----------------------------------------------------------------------------------------

FACTORIES = {
    "zeros": lambda **kw: torch.zeros(2, 3, **kw),
    "ones": lambda **kw: torch.ones(2, 3, **kw),
    "full": lambda **kw: torch.full((2,), 7, **kw),
    "rand": lambda **kw: torch.rand(2, 3, **kw),
    "randn": lambda **kw: torch.randn(2, 3, **kw),
    "randint": lambda **kw: torch.randint(0, 9, (4,), **kw),
    "randperm": lambda **kw: torch.randperm(6, **kw),
    "arange": lambda **kw: torch.arange(5, **kw),
    "arange_from": lambda **kw: torch.arange(1, 5, **kw),
    "arange_step": lambda **kw: torch.arange(0.0, 1.0, 0.25, **kw),
    "linspace": lambda **kw: torch.linspace(0, 1, 5, **kw),
    "logspace": lambda **kw: torch.logspace(0, 1, 5, **kw),
    "eye": lambda **kw: torch.eye(3, **kw),
    "tensor": lambda **kw: torch.tensor([[1.0, 2.0]], **kw),
    "as_tensor": lambda **kw: torch.as_tensor([1, 2], **kw),
    "scalar_tensor": lambda **kw: torch.scalar_tensor(2.5, **kw),
    "tril_indices": lambda **kw: torch.tril_indices(3, 3, **kw),
    "hann_window": lambda **kw: torch.hann_window(8, **kw),
    "zeros_like": lambda **kw: torch.zeros_like(torch.ones(2, 2), **kw),
    "float64": lambda **kw: torch.randn(3, dtype=torch.float64, **kw),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories_give_the_cpus_numbers_on_the_device(name):
    torch.manual_seed(3)
    expected = FACTORIES[name]()
    torch.manual_seed(3)
    got = FACTORIES[name](device="simgpu:1")
    assert got.device == torch.device("simgpu:1")
    assert got.dtype == expected.dtype
    assert torch.equal(got.cpu(), expected)


def test_default_device_context():
    with torch.device("simgpu:1"):
        layer, x = nn.Linear(4, 2), torch.randn(3, 4)
    assert layer.weight.device == x.device == torch.device("simgpu:1")
    assert torch.ones(1).device.type == "cpu"


def test_no_number_means_the_current_device():
    torch.simgpu.set_device(1)
    try:
        assert torch.ones(1, device="simgpu").device == torch.device("simgpu:1")
    finally:
        torch.simgpu.set_device(0)
    assert torch.ones(1, device="simgpu").device == torch.device("simgpu:0")


def test_new_tensors_follow_the_device_or_the_argument():
    x = torch.ones(2, device="simgpu:1")
    assert x.new_zeros(3).device == x.device
    assert torch.zeros_like(x, device="simgpu:0").device == torch.device("simgpu:0")
    assert type(torch.zeros_like(x, device="cpu")) is torch.Tensor


# --- moving and reading -------------------------------------------------------------------------------------


def test_moves():
    x = torch.randn(3, 4)
    there = x.to("simgpu:0")
    across = there.to("simgpu:1")
    assert torch.equal(across.cpu(), x)
    assert there.to("simgpu:0") is there
    across += 1  # a copy, not a view
    assert torch.equal(there.cpu(), x)
    assert x.to("simgpu:0", torch.float64).dtype == torch.float64
    assert there.simgpu(1).device == torch.device("simgpu:1")
    assert there.is_simgpu
    assert not x.is_simgpu


def test_copy_between_devices_in_place():
    x, y = torch.randn(3, device="simgpu:0"), torch.zeros(3, device="simgpu:1")
    y.copy_(x)
    assert y.device == torch.device("simgpu:1")
    assert torch.equal(x.cpu(), y.cpu())
    host = torch.zeros(3)
    host.copy_(x)
    assert torch.equal(host, x.cpu())


def test_reading_values():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = x.to("simgpu:0")
    assert y[1, 0].item() == 3.0
    assert float(y.sum()) == 10.0
    assert y.tolist() == x.tolist()
    assert y[0, 0].tolist() == 1.0
    assert (y.cpu().numpy() == x.numpy()).all()
    assert bool((y > 0).all())
    assert len(y) == 2
    assert f"{y.sum():.2f}" == "10.00"
    assert [row.tolist() for row in y] == x.tolist()


@pytest.mark.parametrize("make", [torch.tensor, torch.FloatTensor, torch.as_tensor, torch.ones(1).new_tensor])
def test_a_tensor_is_made_from_a_list_with_numbers_of_a_gpu(make):
    numbers = torch.tensor([2.5, 3.0], device="simgpu:1")
    made = make([numbers[0], numbers[1], 4])
    assert made.device.type == "cpu"
    assert made.tolist() == [2.5, 3.0, 4.0]


def test_a_tensor_is_made_on_a_gpu_from_numbers_of_another():
    numbers = torch.tensor([2, 3], device="simgpu:1")
    made = torch.tensor([[numbers[0], 1], [7, numbers[1:]]], device="simgpu:0")
    assert made.device == torch.device("simgpu:0")
    assert made.tolist() == [[2, 1], [7, 3]]


def test_numpy_is_refused_as_on_a_gpu():
    with pytest.raises(TypeError, match=r"can't convert simgpu:0 device type tensor to numpy\. Use Tensor\.cpu\(\)"):
        torch.ones(2, device="simgpu:0").numpy()


def test_indexing_and_views():
    x = torch.arange(12.0).reshape(3, 4)
    y = x.clone().to("simgpu:0")
    index = torch.tensor([2, 0])
    for pick in (lambda t: t[1], lambda t: t[:, 1:3], lambda t: t[index], lambda t: t[t > 5], lambda t: t[..., -1]):
        assert torch.equal(pick(y).cpu(), pick(x))
    assert torch.equal(y[index.to("simgpu:0")].cpu(), x[index])
    y[0] = 9  # written through a view
    y[:, 1].mul_(2)
    x[0] = 9
    x[:, 1].mul_(2)
    assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.unsqueeze_(0),
        lambda t: t.t_(),
        lambda t: t.resize_(4, 4),
        lambda t: t.squeeze_(),
        lambda t: t.transpose_(0, 1),
    ],
)
def test_in_place_changes_of_shape(change):
    x = torch.zeros(2, 3)
    y = x.to("simgpu:1")
    change(x)
    change(y)
    assert y.shape == x.shape
    assert y.stride() == x.stride()
    assert (y + 1).shape == x.shape


def test_out_argument_takes_the_result_and_its_shape():
    x = torch.randn(2, 3, device="simgpu:0")
    out = torch.empty(0, device="simgpu:0")
    result = torch.add(x, x, out=out)
    assert result is out
    assert out.shape == (2, 3)
    assert torch.equal(out.cpu(), (x + x).cpu())


# --- printing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.arange(3),
        lambda: torch.arange(3, dtype=torch.int16),
        lambda: torch.zeros(0, 3),
        lambda: torch.randn(40),
        lambda: torch.randn(2, 2, requires_grad=True),
        lambda: torch.ones(2, dtype=torch.bool),
        lambda: torch.ones(2, dtype=torch.complex64),
    ],
)
def test_printing_is_the_cpus_with_the_device_added(make):
    x = make()
    with torch.no_grad():
        text = repr(x.to("simgpu:1").requires_grad_(x.requires_grad))

    def unwrapped(text):  # where a line breaks depends on the length of the device's name
        return "".join(text.split())

    assert unwrapped(text).replace(",device='simgpu:1'", "") == unwrapped(repr(x))
    assert max(map(len, text.splitlines())) <= 80


def test_printing_parameters_and_graph():
    layer = nn.Linear(2, 2, device="simgpu:0")
    assert repr(layer.bias).startswith("Parameter containing:\ntensor([")
    assert "device='simgpu:0', requires_grad=True)" in repr(layer.bias)
    assert "grad_fn=<AddmmBackward0>" in repr(layer(torch.ones(1, 2, device="simgpu:0")))


# --- models -------------------------------------------------------------------------------------------------


def mlp():
    return nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Dropout(0.3), nn.Linear(30, 4))


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 4)
    )


def tokens():
    return nn.Sequential(nn.Embedding(50, 16), nn.LayerNorm(16), nn.Flatten(), nn.Linear(80, 4), nn.GELU())


MODELS = {
    "mlp": (mlp, lambda: torch.randn(8, 20)),
    "cnn": (cnn, lambda: torch.randn(8, 3, 8, 8)),
    "tokens": (tokens, lambda: torch.randint(0, 50, (8, 5))),
}
LOSSES = {
    "mse": (nn.MSELoss(), lambda: torch.randn(8, 4)),
    "cross_entropy": (nn.CrossEntropyLoss(label_smoothing=0.1), lambda: torch.randint(0, 4, (8,))),
    "l1": (nn.L1Loss(), lambda: torch.randn(8, 4)),
    "bce": (nn.BCEWithLogitsLoss(), lambda: torch.rand(8, 4)),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}


def train(model, x, y, loss_fn, make_optimizer, steps=3):
    """Losses, and every parameter and gradient after the last step, as CPU tensors."""
    torch.manual_seed(1)
    optimizer = make_optimizer(model.parameters())
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, [t.detach().cpu() for p in model.parameters() for t in (p, p.grad)]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("model", MODELS)
def test_training_gives_the_cpus_numbers_bit_for_bit(model, loss, optimizer):
    make_model, make_x = MODELS[model]
    loss_fn, make_y = LOSSES[loss]
    ours, x, y = make_model(), make_x(), make_y()
    theirs = copy.deepcopy(ours)
    expected = train(theirs, x, y, loss_fn, OPTIMIZERS[optimizer])
    got = train(ours.to("simgpu:1"), x.to("simgpu:1"), y.to("simgpu:1"), loss_fn, OPTIMIZERS[optimizer])
    assert got[0] == expected[0]
    assert all(torch.equal(a, b) for a, b in zip(got[1], expected[1], strict=True))


class Split(nn.Module):
    def __init__(self, first, second, device0, device1):
        super().__init__()
        self.first, self.second = first.to(device0), second.to(device1)
        self.device0, self.device1 = device0, device1

    def forward(self, x):
        return self.second(self.first(x.to(self.device0)).to(self.device1))


def test_autograd_crosses_devices():
    first, second = nn.Sequential(nn.Linear(20, 30), nn.ReLU()), nn.Linear(30, 4)
    whole = copy.deepcopy(nn.Sequential(first, second))
    x, y = torch.randn(8, 20), torch.randn(8, 4)
    split = Split(first, second, "simgpu:0", "simgpu:1")
    out = split(x)
    assert out.device == torch.device("simgpu:1")
    nn.MSELoss()(out, y.to(out.device)).backward()
    nn.MSELoss()(whole(x), y).backward()
    for ours, theirs in zip(split.parameters(), whole.parameters(), strict=True):
        assert ours.grad.device == ours.device
        assert torch.equal(ours.grad.cpu(), theirs.grad)


def test_backward_in_a_thread_that_never_used_simgpu():
    split = Split(nn.Linear(4, 4), nn.Linear(4, 4), "simgpu:0", "simgpu:1")
    loss = split(torch.randn(2, 4)).sum()
    failures = []

    def backward():
        try:
            loss.backward()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert not failures
    assert split.first.weight.grad.device == torch.device("simgpu:0")


def test_module_moves_keep_values_and_parameters():
    model = mlp()
    before = [p.detach().clone() for p in model.parameters()]
    for target in ("simgpu:0", "simgpu:1", "cpu", "simgpu:1"):
        model.to(target)
        assert all(p.device == torch.device(target) for p in model.parameters())
        assert all(isinstance(p, nn.Parameter) and p.requires_grad and p.is_leaf for p in model.parameters())
        assert all(torch.equal(p.detach().cpu(), b) for p, b in zip(model.parameters(), before, strict=True))
    model.simgpu(0)
    assert next(model.parameters()).device == torch.device("simgpu:0")


@pytest.mark.parametrize("start", ["cpu", "simgpu:0"])
@pytest.mark.parametrize("target", ["cpu", "simgpu:1"])
def test_a_moved_module_keeps_its_parameters(start, target):
    """As on CUDA: an optimizer made before the move still trains the model, and tied weights stay tied."""
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to(start)
    model[1].weight = model[0].weight
    kept = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to(target)
    assert all(now is before for now, before in zip(model.parameters(), kept, strict=True))
    assert model[1].weight is model[0].weight
    assert all(isinstance(p, nn.Parameter) and p.device == torch.device(target) for p in model.parameters())
    before = model[0].bias.detach().cpu().clone()
    model(torch.ones(2, 3, device=target)).sum().backward()
    optimizer.step()
    assert not torch.equal(model[0].bias.detach().cpu(), before)


def test_what_a_program_notes_on_a_parameter_stays_when_the_module_moves():
    layer = nn.Linear(2, 2)
    layer.weight.of_an_expert = True
    assert layer.to("simgpu:0").weight.of_an_expert
    layer.weight.place = "first"
    assert (layer.to("simgpu:1").weight.place, layer.weight.of_an_expert) == ("first", True)
    assert vars(layer.to("cpu").weight) == {"of_an_expert": True, "place": "first"}


def test_a_module_moves_while_an_earlier_output_is_alive():
    model, x = nn.Linear(3, 2), torch.randn(4, 3)
    on_cpu = model(x)
    weight = model.weight
    model.to("simgpu:0")
    assert torch.equal(model(x.to("simgpu:0")).cpu(), on_cpu)
    assert model.weight is weight
    model.cpu()
    assert torch.equal(model(x), on_cpu)


def test_a_module_moves_with_its_gradients():
    model = nn.Linear(3, 2)
    model(torch.ones(1, 3)).sum().backward()
    expected = model.weight.grad.clone()
    for target in ("simgpu:0", "simgpu:1", "cpu"):
        model.to(target)
        assert model.weight.grad.device == torch.device(target)
        assert torch.equal(model.weight.grad.cpu(), expected)


def test_deepcopy_makes_tensors_of_the_same_gpu_and_counts_them():
    model = mlp().to("simgpu:1").eval()
    x = torch.randn(3, 20, device="simgpu:1")
    model(x).sum().backward()
    before = torch.simgpu.memory_allocated(1)
    twin = copy.deepcopy(model)
    sizes = [p.numel() * 4 for p in model.parameters()]
    assert torch.simgpu.memory_allocated(1) - before == sum(-(-size // 512) * 512 for size in sizes)
    assert torch.equal(twin(x).cpu(), model(x).cpu())
    assert all(isinstance(p, nn.Parameter) and p.is_leaf for p in twin.parameters())
    assert all(p.grad is None for p in twin.parameters())  # so does PyTorch
    del twin
    assert torch.simgpu.memory_allocated(1) == before
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(model(x))


def test_deepcopy_state_dict_and_checkpoint():
    model = mlp().to("simgpu:1")
    twin = copy.deepcopy(model)
    assert twin[0].weight.device == torch.device("simgpu:1")
    with torch.no_grad():
        twin[0].weight.zero_()
    assert model[0].weight.abs().sum() > 0
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for location, expected in ((None, "simgpu:1"), ("cpu", "cpu")):
        file.seek(0)
        state = torch.load(file, weights_only=True, map_location=location)
        assert state["0.weight"].device == torch.device(expected)
        assert torch.equal(state["0.weight"].cpu(), model[0].weight.detach().cpu())
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin[0].weight.cpu(), model[0].weight.cpu())


# --- errors -------------------------------------------------------------------------------------------------

a0 = lambda *shape: torch.ones(*shape or (2, 2), device="simgpu:0")  # noqa: E731
a1 = lambda *shape: torch.ones(*shape or (2, 2), device="simgpu:1")  # noqa: E731
host = lambda *shape: torch.ones(*shape or (2, 2))  # noqa: E731


def test_a_cpu_number_mixes_with_anything_pointwise_but_not_with_matmul():
    assert torch.equal((a0() * torch.tensor(3.0)).cpu(), torch.full((2, 2), 3.0))
    assert (torch.tensor(3.0) + a1()).device == torch.device("simgpu:1")
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.dot(a0(1), torch.ones(1))


class AddsWhatIsElsewhere(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient + a1(4)


def fail(gradient):
    raise KeyError("from a hook")


def broken_loss(kind):
    x = a0(4).requires_grad_()
    if kind == "hook":
        y = x * 2
        y.register_hook(fail)
        return x, y.sum()
    return x, AddsWhatIsElsewhere.apply(x).sum()


@pytest.mark.parametrize(
    ("kind", "error", "says"),
    [("hook", KeyError, "from a hook"), ("operator", RuntimeError, "at least two devices, simgpu:0 and simgpu:1")],
)
@pytest.mark.parametrize(
    "backward",
    [
        lambda x, loss: loss.backward(),
        lambda x, loss: loss.cpu().backward(),
        lambda x, loss: torch.autograd.grad(loss, x),
        lambda x, loss: torch.autograd.backward([loss]),
    ],
)
def test_an_error_in_a_backward_pass_is_raised_and_ends_nothing(kind, error, says, backward):
    """PyTorch's Python device guard ends the process here: see torch_private/device.py."""
    for _ in range(2):
        x, loss = broken_loss(kind)
        with pytest.raises(error, match=says):
            backward(x, loss)
        (x * x).sum().backward()  # usable afterwards
        assert torch.equal(x.grad.cpu(), torch.full((4,), 2.0))


def test_an_error_in_a_backward_pass_of_another_thread():
    raised = []

    def backward():
        try:
            broken_loss("operator")[1].backward()
        except RuntimeError as error:
            raised.append(str(error))

    thread = threading.Thread(target=backward)
    thread.start()
    thread.join()
    assert "at least two devices" in raised[0]


@pytest.mark.parametrize("device", ["cpu", "simgpu:1"])
def test_the_gradient_of_an_edge_of_the_graph(device):
    """What PyTorch's zero-bubble schedules ask for: the gradient at a point of the graph, not of a tensor."""
    x = torch.tensor([1.0, 2.0], device=device, requires_grad=True)
    middle = x * 3
    end = middle.exp()
    edge_in, edge_out = map(torch.autograd.graph.get_gradient_edge, (middle, end))
    given = torch.tensor([5.0, 7.0], device=device)
    (at_the_edge,) = torch.autograd.grad(end, edge_in, given, retain_graph=True)
    assert at_the_edge.device == x.device
    assert torch.equal(at_the_edge, (given * end).detach())
    (of_x,) = torch.autograd.grad(edge_out, x, given, retain_graph=True)
    assert of_x.device == x.device
    assert torch.equal(of_x, 3 * (given * end).detach())
    torch.autograd.backward([edge_out], [given])
    assert torch.equal(x.grad, of_x)


def test_a_gradient_for_an_edge_has_to_be_where_the_edge_is():
    edge = torch.autograd.graph.get_gradient_edge(a0().requires_grad_() * 2)
    with pytest.raises(RuntimeError, match="expected device simgpu:0 but got simgpu:1"):
        torch.autograd.backward([edge], [a1()])


def test_checkpointed_layers_train_and_fail_like_others():
    from torch.utils.checkpoint import checkpoint

    layer, x = nn.Linear(4, 4, device="simgpu:0"), a0(2, 4).requires_grad_()
    checkpoint(layer, x, use_reentrant=True).sum().backward()
    assert layer.weight.grad.device == torch.device("simgpu:0")
    calls = []

    def fails_the_second_time(x):
        calls.append(1)
        return layer(x) if len(calls) == 1 else layer(a1(2, 4))

    with pytest.raises(RuntimeError, match="got mat1 is on simgpu:1"):
        checkpoint(fails_the_second_time, x, use_reentrant=True).sum().backward()


# --- configuring --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, -1, 65, 1.5, True, "2", None])
def test_enable_refuses_a_count_that_makes_no_sense(count):
    with pytest.raises(ValueError, match="count must be a whole number from 1 to 64"):
        simgpu.enable(count=count)
    assert torch.simgpu.device_count() == 2


def test_enable_again_with_the_same_arguments_keeps_tensors():
    x = a0()
    simgpu.enable(count=2)
    assert (x + x).device == torch.device("simgpu:0")


def test_reconfiguring_refuses_tensors_of_the_old_machine():
    x = a0()
    simgpu.enable(count=3)
    assert torch.ones(1, device="simgpu:2").device == torch.device("simgpu:2")
    for use in (
        lambda: x + 1,
        lambda: x + a0(),
        lambda: a0() + x,
        lambda: x.cpu(),
        lambda: a0().copy_(x),
        lambda: repr(x),
    ):
        with pytest.raises(RuntimeError, match=r"before simgpu\.enable\(\) changed the simulated machine"):
            use()


def test_the_device_module_is_found_everywhere():
    import torch.simgpu

    assert torch.get_device_module("simgpu") is torch.simgpu
    assert torch.simgpu.is_available()
    assert torch.simgpu.current_device() == 0
    assert torch.accelerator.current_accelerator() == torch.device("simgpu")
    assert torch.accelerator.device_count() == 2


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(simgpu.__path__)])
def test_each_module_is_found_under_its_own_name(name):
    """Nothing that the package gives away hides a module of the same name: `import simgpu.x as x`."""
    module = importlib.import_module(f"simgpu.{name}")
    assert getattr(simgpu, name) is module


def test_an_untested_torch_says_which_were_tested(monkeypatch):
    from simgpu import torch_private

    monkeypatch.setattr(torch, "__version__", "2.9.1+cpu")
    with pytest.raises(RuntimeError, match=r"torch 2\.11 to 2\.15, and this is torch 2\.9\.1"):
        torch_private.require_tested_torch()
    monkeypatch.setattr(torch, "__version__", "2.99.0")
    monkeypatch.delattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend")
    with pytest.raises(
        RuntimeError, match=r"which torch 2\.99\.0 no longer has\. It was tested with torch 2\.11 to 2\.15"
    ):
        torch_private.require_tested_torch()


def test_before_enable_nothing_of_it_exists():
    code = (
        "import torch, simgpu\n"
        "assert not simgpu.is_enabled() and not hasattr(torch, 'simgpu')\n"
        "try: torch.ones(1, device='simgpu:0')\n"
        "except RuntimeError as error: assert 'simgpu' in str(error)\n"
        "else: raise SystemExit('no error')"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_machine_keeps_no_tensors_alive():
    import gc
    import weakref

    x = torch.randn(1000, device="simgpu:0")
    value = weakref.ref(x._value)
    y = (x * 2).sum()
    del x, y
    gc.collect()
    assert value() is None
    assert machine.settings.count == 2


def test_a_name_without_a_number_is_the_current_gpu_however_it_is_used():
    x, name = torch.ones(2), "simgpu"
    made = (
        lambda: x.to(name),
        lambda: x.to(torch.device(name), torch.float16),
        lambda: x.to(device=name, copy=True),
        lambda: torch.ones(2, device=name),
        lambda: torch.empty_like(x, device=name),
        lambda: torch.tensor([1.0], device=name),
        lambda: torch.as_tensor([1.0], device=name),
        lambda: torch.asarray([1.0], device=name),
        lambda: nn.Linear(2, 2).to(name).weight,
    )
    for current in (0, 1, 0):
        with torch.simgpu.device(current):
            assert [str(make().device) for make in made] == [f"simgpu:{current}"] * len(made)
            assert x.to("simgpu:1").device.index == 1
            assert x.to("cpu").device.type == torch.tensor([1.0]).device.type == "cpu"
    with torch.device("simgpu:1"):  # PyTorch still knows its functions
        assert [str(make([1.0]).device) for make in (torch.tensor, torch.as_tensor)] == ["simgpu:1", "simgpu:1"]


@pytest.mark.parametrize("device", ["cpu", "simgpu:0"])
@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
def test_a_tensor_is_set_to_the_memory_of_another(device):
    rows = torch.arange(6.0, device=device).view(2, 3)
    last = rows[1:]
    whole = last.new_empty([0]).set_(last.storage())
    assert whole.tolist() == [0, 1, 2, 3, 4, 5]
    assert last.new_empty([0]).set_(last.untyped_storage(), 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    assert last.new_empty([0]).set_(last, 1, (2,), (1,)).tolist() == [4, 5]
    assert last.new_empty([0]).set_(last.untyped_storage(), 4, (2,)).tolist() == [4, 5]
    whole.add_(1)
    assert rows.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert whole.data_ptr() == rows.data_ptr()
    if device != "cpu":
        assert simgpu.storage_of(whole) is simgpu.storage_of(rows)  # which is counted once
    assert whole.set_().shape == (0,)


def test_a_storage_goes_to_the_host_and_back():
    x = torch.arange(6.0, device="simgpu:1").view(2, 3)
    here = x[1:].untyped_storage().cpu()
    assert type(here) is torch.UntypedStorage
    assert torch.empty(0).set_(here).tolist() == [0, 1, 2, 3, 4, 5]
    torch.empty(0).set_(here).add_(1)
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert x[1:].untyped_storage().copy_(here).data_ptr() == x.data_ptr()
    assert x.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_storage_on_a_machine_with_shapes_only_has_nothing_for_the_host():
    simgpu.enable(count=1, compute=False)
    with pytest.raises(RuntimeError, match="needs the values of a tensor"):
        torch.ones(2, device="simgpu:0").untyped_storage().cpu()


@pytest.mark.parametrize("device", ["cpu", "simgpu:1"])
def test_a_shallow_copy_is_another_tensor_in_the_same_memory(device):
    x = torch.tensor([1.0, 2.0], device=device)
    copy.copy(x).fill_(7)
    assert x.tolist() == [7, 7]
    weight = nn.Parameter(x)
    weight.note = "kept"
    twin = copy.copy(weight)
    assert isinstance(twin, nn.Parameter)
    assert (twin.requires_grad, twin.is_leaf, twin.grad, twin.data_ptr()) == (True, True, None, weight.data_ptr())
    assert device == "cpu" or (twin.note, simgpu.storage_of(twin)) == ("kept", simgpu.storage_of(weight))


@pytest.mark.parametrize("kind", [torch.float32, torch.int32, torch.bool, torch.complex64])
def test_a_number_is_copied_into_a_tensor(kind):
    x = torch.zeros(2, dtype=kind, device="simgpu:0")
    x.cpu().pin_memory()  # from then on it is asked what is pinned
    for number in (2.5, 3, True):
        assert torch.equal(x.copy_(number).cpu(), torch.zeros(2, dtype=kind).copy_(number))


@pytest.mark.parametrize("make", [torch.UntypedStorage, lambda n, **kw: torch.TypedStorage(n, dtype=torch.int, **kw)])
def test_a_storage_by_itself_is_refused_in_one_line(make):
    with pytest.raises(RuntimeError, match=r"makes no storage by itself: torch\.empty\(bytes") as refused:
        make(4, device="simgpu:1")
    assert "\n" not in str(refused.value)
    assert make(4, device="cpu").nbytes() == make(4).nbytes()


@pytest.mark.parametrize("compute", [True, False])
@pytest.mark.parametrize("shape", [(0, 4, 8, 8), (2, 0, 8, 8), (0, 4, 20)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_convolutions_of_nothing_are_as_on_the_cpu(shape, kind, compute):
    simgpu.enable(count=2, compute=compute)
    weight = torch.ones((4, shape[1]) + (3,) * (len(shape) - 2), dtype=kind)
    shapes = []
    for device in ("cpu", "simgpu:0"):
        x = torch.ones(shape, dtype=kind, device=device, requires_grad=True)
        sides = [1] * (len(shape) - 2)
        y = torch.convolution(x, weight.to(device), None, sides, sides, sides, False, [0] * len(sides), 1)
        y.sum().backward()
        shapes.append((y.shape, x.grad.shape, y.dtype))
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("lengths", [(torch.tensor(5), torch.tensor(2)), (torch.tensor([5]), torch.tensor([2]))])
def test_ctc_loss_without_a_batch(lengths):
    scores, targets = torch.randn(5, 3).log_softmax(-1), torch.tensor([1, 2])
    on_gpu = torch.nn.functional.ctc_loss(scores.to("simgpu:0"), targets.to("simgpu:0"), *lengths)
    assert on_gpu.item() == torch.nn.functional.ctc_loss(scores, targets, *lengths).item()


@pytest.mark.parametrize("to", ["cpu", "simgpu:0", "simgpu:1"])
@pytest.mark.parametrize("start", ["cpu", "simgpu:0"])
def test_copy_to_another_device_has_a_gradient_of_forward_mode(start, to):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2, device=start), torch.full((2,), 3.0, device=start))
        copied = torch.autograd.forward_ad.unpack_dual(torch.zeros(2, device=to).copy_(dual))
        assert (copied.primal.tolist(), copied.tangent.tolist(), str(copied.primal.device)) == ([1, 1], [3, 3], to)


@pytest.mark.parametrize("device", ["cpu", "simgpu:1"])
def test_a_deep_copy_of_a_parameter_has_no_gradient_and_that_of_a_tensor_has(device):
    layer, leaf = nn.Linear(2, 2, device=device), torch.ones(2, device=device, requires_grad=True)
    (layer(leaf).sum() + leaf.sum()).backward()
    twin = copy.deepcopy(layer)
    assert [p.grad for p in twin.parameters()] == [None, None]
    assert isinstance(twin.weight, nn.Parameter)
    assert torch.equal(copy.deepcopy(leaf).grad, leaf.grad)
