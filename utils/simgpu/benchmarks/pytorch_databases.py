"""PyTorch's databases of operators and of optimizers, on a simulated GPU against the CPU. Run it by hand (minutes):

    .venv/bin/python -m utils.simgpu.benchmarks.pytorch_databases [operators] [optimizers] [NAME ...]

Operators: `op_db`, of each up to 8 samples for float32 (contiguous, and again not), bfloat16, int64 and complex64, with
their gradients. Optimizers: `optim_db` for CUDA with all their flags, 5 steps, against the CPU's without those flags
that say only how a step is computed. An outcome is "right", "refused" (the CPU computes it, the GPU raises), "differs",
"only the CPU raises" or "both raise". Names narrow it down. Printed are the counts, and which cases are not right.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from itertools import islice

DEVICE = "cuda:1"
SAMPLES = 8  # of an operator and dtype, at most
STEPS = 5
HOW_ONLY = ("foreach", "fused", "differentiable", "capturable")


def outcome(expected, found, compare) -> tuple[str, str]:
    """What became of a case: `expected` and `found` compute it on the CPU and on the GPU."""
    import torch

    results = []
    for compute in expected, found:
        torch.manual_seed(0)
        try:
            results.append(compute())
        except Exception as error:
            results.append(error)
    on_cpu, on_gpu = results
    if isinstance(on_cpu, Exception):
        return ("both raise", "") if isinstance(on_gpu, Exception) else ("only the CPU raises", str(on_cpu))
    if isinstance(on_gpu, Exception):
        return "refused", f"{type(on_gpu).__name__}: {on_gpu}"
    try:
        compare(on_cpu, on_gpu)
    except AssertionError as error:
        return "differs", " ".join(str(error).split())
    return "right", ""


def equal(on_cpu, on_gpu) -> None:
    """Raise AssertionError unless the tensors in both are alike, by the tolerances of `assert_close`."""
    import torch
    from torch.utils._pytree import tree_leaves

    one, other = tree_leaves(on_cpu), tree_leaves(on_gpu)
    assert len(one) == len(other), f"{len(one)} results, {len(other)} on the GPU"
    for a, b in zip(one, other, strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(b.detach().cpu(), a.detach().cpu(), equal_nan=True)


def alike(on_cpu, on_gpu) -> None:
    """Raise AssertionError unless the two tensors, whose values mean nothing, have one shape, dtype and strides."""
    told = [(x.shape, x.dtype, x.stride()) for x in (on_cpu[0], on_gpu[0])]
    assert told[0] == told[1], told


def operator_cases(words: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    import torch
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils._pytree import tree_leaves, tree_map_only

    def computed(info, sample, move):
        given = sample.input, sample.args, sample.kwargs
        given, args, kwargs = tree_map_only(torch.Tensor, move, given)
        out = info.op(given, *args, **kwargs)
        leaves = [x for x in tree_leaves((given, args, kwargs)) if isinstance(x, torch.Tensor) and x.requires_grad]
        results = [x for x in tree_leaves(out) if isinstance(x, torch.Tensor) and x.requires_grad]
        grads = []
        if leaves and results:
            ones = [torch.ones_like(x) for x in results]
            grads = torch.autograd.grad(results, leaves, ones, allow_unused=True)
        return out, grads

    def dense(sample) -> bool:
        tensors = tree_leaves((sample.input, sample.args, sample.kwargs))
        return all(x.layout is torch.strided for x in tensors if isinstance(x, torch.Tensor))

    def copied(device):
        return lambda t: t.detach().clone().to(device).requires_grad_(t.requires_grad)

    for info in op_db:
        if words and info.name not in words:
            continue
        for dtype in torch.float32, torch.bfloat16, torch.int64, torch.complex64:
            if dtype not in info.dtypes:
                continue
            needs = info.supports_autograd and dtype in info.supported_backward_dtypes("cpu")
            samples = list(islice(info.sample_inputs("cpu", dtype, requires_grad=needs), SAMPLES))
            if dtype is torch.float32:
                samples += [sample.noncontiguous() for sample in samples if dense(sample)]
            for sample in samples:
                case = outcome(
                    lambda: computed(info, sample, copied("cpu")),  # noqa: B023
                    lambda: computed(info, sample, copied(DEVICE)),  # noqa: B023
                    alike if "empty" in info.name else equal,
                )
                yield f"{info.name} {info.variant_test_name} {dtype}".replace("  ", " "), case


def optimizer_cases(words: set[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    import torch
    from torch import nn
    from torch.testing._internal.common_optimizers import (
        _get_optim_inputs_including_global_cliquey_kwargs as with_all_flags,
    )
    from torch.testing._internal.common_optimizers import optim_db

    def trained(info, kwargs, device):
        kwargs = {name: x.clone() if isinstance(x, torch.Tensor) else x for name, x in kwargs.items()}
        bias = info.optim_cls.__name__ != "Muon"  # which takes matrices only
        model = nn.Sequential(nn.Linear(4, 8, bias=bias), nn.Tanh(), nn.Linear(8, 4, bias=False))
        model.to(device)
        x, y = torch.randn(16, 4).to(device), torch.randn(16, 4).to(device)
        optimizer = info.optim_cls(model.parameters(), **kwargs)

        def closure():
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if info.only_supports_sparse_grads:
                for p in model.parameters():
                    p.grad = p.grad.to_sparse()
            return loss

        for _ in range(STEPS):
            if kwargs.get("differentiable"):  # which changes no parameter whose gradients are recorded
                closure()
                model.requires_grad_(False)
                optimizer.step()
                model.requires_grad_(True)
            else:
                optimizer.step(closure)
        return list(model.parameters())

    for info in optim_db:
        if words and info.optim_cls.__name__ not in words:
            continue
        for given in with_all_flags("cuda", torch.float32, info):
            plain = {name: x for name, x in given.kwargs.items() if name not in HOW_ONLY}
            case = outcome(
                lambda: trained(info, plain, "cpu"),  # noqa: B023
                lambda: trained(info, given.kwargs, DEVICE),  # noqa: B023
                equal,
            )
            yield f"{info.optim_cls.__name__} {given.kwargs}", case


def main(*given: str) -> None:
    os.environ.update(SIMGPU="2", SIMGPU_AS_CUDA="1", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    import torch

    from simgpu.environment import enable_as_asked

    enable_as_asked(os.environ)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kinds = {"operators": operator_cases, "optimizers": optimizer_cases}
    words = set(given) - kinds.keys()
    for kind in [kind for kind in kinds if kind in given] or kinds:
        counts, said = Counter(), Counter()
        for name, (what, line) in kinds[kind](words):
            counts[what] += 1
            if line:
                said[f"{what}: {name}: {line[:200]}".splitlines()[0]] += 1
        for line, count in said.items():
            print(f"{count} x {line}")
        print(f"PyTorch {torch.__version__}, {kind}: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))


if __name__ == "__main__":
    main(*sys.argv[1:])
