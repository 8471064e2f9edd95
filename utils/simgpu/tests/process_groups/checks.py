"""What the checks that run on ranks share: who they are, their register, and how far tensors are apart."""

import os

import torch
from torch import nn

RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


def device():
    return torch.device("simgpu", RANK)


def farthest(ours, theirs) -> float:
    """The largest difference between tensors, in shares of the largest number among them."""
    pairs = [(mine.detach().cpu(), other.detach()) for mine, other in zip(ours, theirs, strict=True)]
    largest = max(other.abs().max().item() for _, other in pairs)
    return max((mine - other).abs().max().item() for mine, other in pairs) / largest


def refused(call) -> str:
    """The words with which a call is refused."""
    try:
        call()
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)
    return "not refused"


def numbers(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def perceptron():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
