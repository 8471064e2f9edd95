"""Looks at the student's objects, beside the student's code, and tells what it sees as plain data."""

from __future__ import annotations

from copy import deepcopy

import numpy as np
import torch
from torch import nn

CHUNK = 2**20  # numbers of the random sequence that are made at once, and the places where a parameter's may begin
SPREAD = 2_654_435_761  # puts what differs little far apart
_made = [torch.empty(0)]  # the beginning of the sequence, as much as somebody has needed


def device_of(value) -> str:
    """The device of a tensor, or of a module's parameters: one name, or several joined by ' and '."""
    tensors = [value] if isinstance(value, torch.Tensor) else [*value.parameters(), *value.buffers()]
    return " and ".join(sorted({str(tensor.device) for tensor in tensors})) or "nowhere"


def kind_of(value) -> str:
    """What a value is, in words for the student: "a tensor", "a torch.device", "an int", "None"."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return "a tensor"
    name = type(value).__name__
    if isinstance(value, (torch.device, torch.dtype, torch.Size)):
        name = f"torch.{name}"
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def called(function, *given) -> tuple[object, list[int]]:
    """What `function(*given)` returns, and the places of those things that it has changed without being asked to."""
    before = deepcopy(given)
    found = function(*given)
    return found, [place for place, (then, now) in enumerate(zip(before, given, strict=True)) if then != now]


def text_or_kind(value) -> str:
    """Text in its quotes, and of anything else what it is."""
    return repr(value) if isinstance(value, str) else kind_of(value)


def array(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of a tensor on any device."""
    return tensor.detach().cpu().numpy()


def gradient_of(tensor: torch.Tensor) -> np.ndarray:
    """The numbers of the gradient that a tensor has got."""
    assert tensor.grad is not None, "it has no gradient"
    return array(tensor.grad)


def parameters(module: nn.Module) -> list[dict]:
    """Each parameter's name, shape and device, in the module's order."""
    return [{"name": name, "shape": list(p.shape), "device": str(p.device)} for name, p in module.named_parameters()]


def tensors_of(module: nn.Module, device: str | None = None) -> list[list]:
    """[shape, device] of each parameter and buffer, in the module's order; `device` replaces the one it is on."""
    return [[list(t.shape), device or str(t.device)] for t in (*module.parameters(), *module.buffers())]


def fill(module: nn.Module, seed: int) -> None:
    """Give every parameter numbers that depend on `seed` and its shape only.

    Two models with parameters of the same, distinct shapes are equal afterwards, in whatever order they made
    them, and the numbers need not travel. Scaled like PyTorch's own start, so that outputs stay near 1.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            place = seed + sum(n * 7919**i for i, n in enumerate(parameter.shape, 1))
            values = random_numbers(place * SPREAD % CHUNK, parameter.numel()).reshape(parameter.shape)
            parameter.copy_(values / parameter.shape[-1] ** 0.5)


def random_numbers(start: int, count: int) -> torch.Tensor:
    """`count` numbers from `start` on, of one long normal sequence that is the same in every process.

    What has been made of it is kept: numbers for a large model cost more than all that is computed with it.
    """
    while _made[0].numel() < start + count:
        generator = torch.Generator().manual_seed(_made[0].numel())
        _made[0] = torch.cat([_made[0], torch.randn(CHUNK, generator=generator)])
    return _made[0][start : start + count]


def build(stack: list[list], state: dict[str, np.ndarray] | None = None) -> nn.Sequential:
    """A stack of layers on the CPU from plain data, such as [["Linear", 8, 4], ["ReLU"]], filled from `state`."""
    layers = nn.Sequential(*[getattr(nn, kind)(*sizes) for kind, *sizes in stack])
    if state is not None:
        layers.load_state_dict({name: torch.from_numpy(values) for name, values in state.items()})
    return layers


def copied_results_of(output: torch.Tensor) -> list[str]:
    """For each copy between devices on the way to `output`, the autograd node whose result was copied.

    `AddmmBackward0` is a linear layer. Copies of what needs no gradient, such as the batch, leave no node.
    """
    found, waiting, seen = [], [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        sources = [source for source, _ in node.next_functions]
        if node.name().startswith("ToCopyBackward"):
            found += [source.name() for source in sources if source is not None]
        waiting += sources
    return found


def forward_work(module: nn.Module, x: np.ndarray) -> dict[str, int]:
    """The FLOPs of one forward pass by simulated device, as the log of the simulated GPUs has them."""
    import simgpu

    batch, begin = torch.from_numpy(x), simgpu.now()
    module(batch)
    work: dict[str, int] = {}
    for record in simgpu.log(begin):
        device = f"simgpu:{record.device}"
        work[device] = work.get(device, 0) + record.flops
    return work


def forward_and_backward(module: nn.Module, x: np.ndarray) -> dict:
    """One pass of a batch that starts on the CPU: outputs, then the gradients of the mean of their squares."""
    output = module(torch.from_numpy(x))
    copied = copied_results_of(output)
    module.zero_grad()
    output.square().mean().backward()
    gradients = [p.grad for p in module.parameters()]
    return {
        "output": array(output),
        "output device": str(output.device),
        "copied results of": copied,
        "gradients": [None if g is None else array(g) for g in gradients],
        "gradient devices": [None if g is None else str(g.device) for g in gradients],
    }
