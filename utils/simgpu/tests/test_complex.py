"""Complex numbers on a simulated GPU: PyTorch conjugates and negates lazily, by a bit that an operator has to heed.

PyTorch's own database of operators says what to call. Each sample is given as it is, and with its complex inputs
conjugated lazily. Values, bits, and every gradient have to be the CPU's.
"""

import copy

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map_only

import simgpu

pytestmark = pytest.mark.filterwarnings("ignore:Casting complex values to real discards the imaginary part")

DEVICE = "simgpu:1"
# Those that look at the bits, those that are built on them, and some that know nothing of them.
NAMES = """
    abs add angle cat clone conj conj_physical cumsum div dot fft.fft fft.hfft fft.hfft2 fft.hfftn fft.ihfft
    fft.irfft fft.irfftn imag index_put linalg.eigh linalg.inv linalg.lstsq linalg.pinv linalg.solve linalg.svd
    matmul mul real resolve_conj resolve_neg select sgn sum t vdot view_as_real where zeros_like
"""
OPERATORS = [info for info in op_db if info.name in NAMES.split() and not info.variant_test_name]
EXAMPLES = {
    "conjugated": lambda z: z.conj(),
    "negated": lambda z: z.conj().imag,
    "a view of it": lambda z: z.mH[1:, ::2],
    "computed with": lambda z: z.conj() + 1,
    "written through": lambda z: z.clone().conj().mul_(2j),
    "of a negated one": lambda z: (z.conj().imag + 1) * z.conj().imag,
    "copied into": lambda z: torch.zeros_like(z).conj().copy_(z),
    "copied from": lambda z: torch.zeros_like(z).copy_(z.conj()),
    "in another precision": lambda z: z.conj().to(torch.complex128),
    "out=": lambda z: torch.add(z, z.conj(), out=torch.empty_like(z)),
    "detached": lambda z: z.conj().detach() * z,
    "resolved": lambda z: torch.view_as_real(z.conj().resolve_conj()),
    "twice": lambda z: z.conj().conj(),
}


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2)
    torch.manual_seed(0)
    yield
    simgpu.enable(count=2)


def outside(tensor):
    return tensor.shape, tensor.stride(), tensor.dtype, tensor.is_conj(), tensor.is_neg()


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_lazily_conjugated_and_negated_tensors(example):
    z = torch.randn(3, 4, dtype=torch.complex64)
    for _ in range(2):  # the second time from plans
        expected, got = example(z), example(z.to(DEVICE))
        assert outside(got) == outside(expected)
        assert torch.equal(got.cpu(), expected)
        assert got.tolist() == expected.tolist()
        assert got.sum().item() == expected.sum().item()
        assert torch.equal(copy.deepcopy(got).cpu(), expected)
        assert "".join(repr(got).split()).replace(f",device='{DEVICE}'", "") == "".join(repr(expected).split())


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_shape_only_does_with_them_what_values_do(example):
    results = []
    for compute in (True, False):
        simgpu.enable(count=3)  # so that the next is a new machine
        simgpu.enable(count=2, compute=compute)
        z = torch.empty(3, 4, dtype=torch.complex64, device=DEVICE)
        for _ in range(2):
            got = example(z)
        results.append((outside(got), simgpu.log(), torch.simgpu.memory_allocated(1)))
        del got, z
    assert results[0] == results[1]


def conjugated(values):
    return tree_map_only(torch.Tensor, lambda t: t.conj(), values)


def given(sample, device):
    """The arguments of a sample as leaves on a device."""

    def leaf(t):
        return t.detach().clone().to(device).requires_grad_(t.requires_grad)

    kwargs = sample.kwargs | ({"device": device} if "device" in sample.kwargs else {})
    return tree_map_only(torch.Tensor, leaf, ((sample.input, *sample.args), kwargs))


def run(info, sample, change, device):
    """Outputs, and the gradients of the inputs, with what is lazy resolved."""
    leaves, kwargs = given(sample, device)
    outputs = [t for t in tree_leaves(info(*change(leaves), **kwargs)) if isinstance(t, torch.Tensor)]
    roots = [t.abs().sum() for t in outputs if t.requires_grad]
    if roots:
        sum(roots).backward()
    gradients = [t.grad for t in tree_leaves(leaves) if isinstance(t, torch.Tensor) and t.grad is not None]
    return [t.detach().cpu().resolve_conj().resolve_neg() for t in (*outputs, *gradients)]


@pytest.mark.parametrize("change", [lambda values: values, conjugated], ids=["plain", "conjugated"])
@pytest.mark.parametrize("info", OPERATORS, ids=lambda info: info.name)
def test_operators_on_complex_numbers(info, change):
    samples = list(info.sample_inputs("cpu", torch.complex64, requires_grad=info.supports_autograd))
    assert samples
    for number, sample in enumerate(samples[:8]):
        try:
            expected = run(info, sample, change, "cpu")
        except Exception as error:  # what PyTorch refuses on the CPU is refused on the device
            with pytest.raises(type(error)):
                run(info, sample, change, DEVICE)
            continue
        torch.testing.assert_close(run(info, sample, change, DEVICE), expected, msg=f"sample {number}")


def test_a_gradient_that_is_zero_everywhere():
    x = torch.tensor([-2.0, 0.0, 3.0], device=DEVICE, requires_grad=True)
    x.sgn().sum().backward()
    assert torch.equal(x.grad.cpu(), torch.zeros(3))


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("name", ["eig", "eigh", "svd"])
def test_a_loss_that_depends_on_the_phases_of_vectors_is_refused(name, device):
    z = torch.randn(3, 3, dtype=torch.complex64)
    z = (z + z.mH).to(device).requires_grad_()
    vectors = getattr(torch.linalg, name)(z)[0 if name == "svd" else 1]
    vectors.abs().square().sum().backward(retain_graph=True)  # does not
    with pytest.raises(RuntimeError, match=f"{name}_backward: .*ill-defined"):
        vectors.real.sum().backward()


def test_shape_only_asks_no_phases():
    simgpu.enable(count=2, compute=False)
    z = torch.empty(3, 3, dtype=torch.complex64, device=DEVICE, requires_grad=True)
    torch.linalg.eigh(z).eigenvectors.real.sum().backward()
    assert z.grad.shape == (3, 3)
