"""What lesson 13 needs around its own code: processes started at once, and the step that it times on a device mesh."""

import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn

from utils.observe.trace import record


def run(*commands: Sequence[str], env: Mapping[str, str]) -> str:
    """What these commands of Python print, all started at once; then what the failed ones write as errors."""
    started = [
        subprocess.Popen(
            [sys.executable, *command], env=dict(env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for command in commands
    ]
    printed = [each.communicate() for each in started]
    failed = [err for each, (_, err) in zip(started, printed, strict=True) if each.returncode]
    return "".join([out for out, _ in printed] + failed)


def free_port() -> int:
    """A port of this machine that no program uses now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Block(nn.Module):
    """An MLP of two linear layers, `first` and `second`, whose input is added: (tokens, hidden) to the same shape."""

    def __init__(self, hidden: int):
        super().__init__()
        self.first, self.second = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.second(nn.functional.gelu(self.first(x)))


def times_of_steps(
    split: Callable[[nn.Module, Sequence[str]], None],
    dimensions: Sequence[str],
    sizes: Sequence[int],
    hidden: int = 4096,
) -> list[float]:
    """Seconds of a step of four blocks that `split(model, dimensions)` splits, for each number of tokens in `sizes`.

    A step is a forward and a backward pass in bfloat16, on this rank; the second of two is timed.
    """
    here = torch.device("simgpu", dist.get_rank())
    with here:
        model = nn.Sequential(*[Block(hidden) for _ in range(4)])
    split(model, dimensions)
    seconds: dict[int, float] = {}
    for tokens in sizes:
        x = torch.randn(tokens, hidden, device=here, dtype=torch.bfloat16)
        for _ in range(2):  # once to warm up
            with record() as timeline:
                model(x).square().mean().backward()
            seconds[tokens] = timeline.span
    return list(seconds.values())
