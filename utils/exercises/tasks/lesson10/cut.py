"""Runs a student's `cut_step` on two layers, and the same model without a cut."""

from copy import deepcopy

import torch
from torch import nn

from utils.exercises.facts.probes import array, fill


def step_through_a_cut(cut_step, device0: str, device1: str, seed: int) -> dict:
    """What part1 was given, and gradients and loss beside those of the `right` one; gradients begin as ones."""
    model = nn.Sequential(nn.Sequential(nn.Linear(6, 5), nn.Tanh()), nn.Sequential(nn.Linear(5, 4), nn.Tanh()))
    fill(model, seed)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    whole, target = deepcopy(model), torch.zeros(7, 4)
    for parameter in whole.parameters():
        parameter.grad = torch.ones_like(parameter)
    given = torch.randn(7, 6, generator=torch.Generator().manual_seed(seed))
    loss = nn.functional.mse_loss(whole(given), target)
    loss.backward()

    (part0, part1), seen = model, []
    part0.to(device0)
    part1.to(device1)
    part1.register_forward_pre_hook(lambda _, inputs: seen.append([inputs[0].is_leaf, inputs[0].requires_grad]))
    found = cut_step(part0, part1, given.to(device0), target.to(device1), nn.functional.mse_loss)
    if isinstance(found, torch.Tensor) and found.numel() == 1:
        found = found.item()
    return {
        "calls of part1": seen,
        "names": [f"part{name}" for name, _ in model.named_parameters()],
        "gradients": [array(torch.zeros_like(p) if p.grad is None else p.grad) for p in model.parameters()],
        "right": [array(p.grad) for p in whole.parameters()],
        "loss": found if isinstance(found, float) else None,
        "right loss": loss.item(),
    }
