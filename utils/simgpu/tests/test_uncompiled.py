"""torch.compile on simulated GPUs: what is compiled runs uncompiled, and one warning says so.

In a process of its own, since PyTorch's compiler has one stance for a process.
"""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import warnings
import torch

heard = []
warnings.showwarning = lambda message, kind, file, line, *_: heard.append((str(message), file))


@torch.compile
def plus_one(x):
    return x + 1


torch.manual_seed(0)
eager = torch.nn.Linear(4, 4).cuda()
x = torch.randn(2, 4, device="cuda")
wanted = torch.autograd.grad(eager(x).square().sum(), eager.weight)[0]
for arguments in {}, {"backend": "eager"}, {"backend": "aot_eager", "fullgraph": True}, {"mode": "max-autotune"}:
    model = torch.compile(eager, **arguments)
    found = torch.autograd.grad(model(x).square().sum(), eager.weight)[0]
    assert torch.equal(found, wanted), arguments
    assert [*model.state_dict()] == ["_orig_mod.weight", "_orig_mod.bias"]
assert torch.equal(plus_one(x), x + 1)
in_place = torch.nn.Linear(4, 4).cuda()
in_place.compile()
assert in_place(x).shape == (2, 4)
assert len([text for text, file in heard if "runs uncompiled" in text and file == __file__]) == 1, heard

torch.compiler.set_stance("default")
try:
    plus_one(x)
except RuntimeError as error:
    assert 'torch.compiler.set_stance("force_eager") first' in str(error)
else:
    raise AssertionError("PyTorch's compiler was given a simulated tensor")
print("done")
"""

BEFORE = """
import torch


@torch.compile(backend="eager")
def plus_one(x):
    return x + 1


import simgpu

simgpu.enable(count=1)
print(plus_one(torch.ones(2, device="simgpu")).tolist())
"""


@pytest.mark.slow
def test_compiled_code_runs_uncompiled(tmp_path):
    assert run(tmp_path, PROGRAM, SIMGPU="2", SIMGPU_AS_CUDA="1") == "done"


@pytest.mark.slow
@pytest.mark.thorough
def test_also_if_it_was_compiled_before_there_were_simulated_gpus(tmp_path):
    assert run(tmp_path, BEFORE) == "[2.0, 2.0]"


def run(folder, program, **environment):
    path = folder / "program.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, path], env=os.environ | environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
