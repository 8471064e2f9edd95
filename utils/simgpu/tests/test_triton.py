"""Triton's kernels: refused in a line where Triton would compile them, and computed by its interpreter."""

import pytest
import torch

import simgpu

tl = pytest.importorskip("triton.language")
triton = pytest.importorskip("triton")


def add_to(out, x, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(out + at, mask=at < n) + tl.load(x + at, mask=at < n), mask=at < n)


@pytest.fixture(autouse=True)
def two_gpus():
    simgpu.enable(count=2, gpu="V100")


def test_a_kernel_that_triton_would_compile_is_refused():
    kernel = triton.jit(add_to)
    with simgpu.as_cuda():
        assert torch.cuda.is_available()
        x = torch.ones(4, device="cuda")
        with pytest.raises(RuntimeError, match="Triton compiles kernels for real hardware") as told:
            kernel[(1,)](x, x, 4, BLOCK=4)
    assert len(str(told.value).splitlines()) == 1
    assert "TRITON_INTERPRET=1" in str(told.value)


@pytest.mark.parametrize("gpu", [0, 1])
def test_triton_s_interpreter_computes_a_kernel(monkeypatch, gpu):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    kernel = triton.jit(add_to)
    with simgpu.as_cuda():
        whole = torch.arange(10.0, device=f"cuda:{gpu}")
        x = torch.full((6,), 0.5, device=f"cuda:{gpu}")
        kernel[(2,)](whole[2:8], x, 6, BLOCK=4)
        copies = [(record.kind, record.bytes) for record in simgpu.log() if record.kind != "kernel"]
        assert copies[-4:] == [("d2h", 40), ("d2h", 24), ("h2d", 40), ("h2d", 24)]
        assert whole.tolist() == [0, 1, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8, 9]
        assert x.tolist() == [0.5] * 6
