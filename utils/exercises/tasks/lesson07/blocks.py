"""Runs a student's `run_blocks` on a small GPT, and tells numbers, devices and copies."""

import torch

from utils.exercises.facts.probes import array, device_of, fill, gradient_of, kind_of
from utils.models.gpt import GPT
from utils.observe.trace import record


def small_gpt(blocks=3):
    return GPT(vocab_size=7, hidden_size=16, heads=2, blocks=blocks, longest=32)


def run_on_one(run_blocks, cut: int, tokens: int) -> dict:
    """Both devices are the CPU, so there are numbers on any machine. `right` is what the model's own loop gives."""
    model, cpu = small_gpt(), torch.device("cpu")
    fill(model, seed=4)
    given = torch.randn(2, tokens, 16, generator=torch.Generator().manual_seed(6))
    x, same = given.clone().requires_grad_(), given.clone().requires_grad_()
    output = run_blocks(model, x, cut, cpu, cpu)
    if not isinstance(output, torch.Tensor):
        return {"kind": kind_of(output)}
    if output.requires_grad:
        output.square().sum().backward()
    right = same
    for block in model.blocks:
        right = block(right, model.cos[:tokens], model.sin[:tokens])
    right.square().sum().backward()
    mine = None if x.grad is None else array(x.grad)
    return {"output": array(output), "right": array(right), "mine": mine, "gradient": gradient_of(same)}


def run_on_two(run_blocks, device0: str, device1: str, cuts: list[int]) -> list:
    """[device of the output, of each block, of the model's tables] after each cut; x begins on the CPU."""
    devices = torch.device(device0), torch.device(device1)
    model, told = small_gpt().to(devices[0]), []
    for cut in cuts:
        output = run_blocks(model, torch.zeros(2, 5, 16), cut, *devices)
        told.append([device_of(output), [device_of(block) for block in model.blocks], device_of(model.cos)])
    return told


def copies_of_a_run(run_blocks, device0: str, device1: str, cut: int) -> list[int]:
    """The bytes of each copy when the blocks are where they should be, and x on the first device."""
    devices = torch.device(device0), torch.device(device1)
    model = small_gpt(blocks=4).to(devices[0])
    x = torch.zeros(2, 5, 16, device=devices[0])
    run_blocks(model, x, cut, *devices)
    with record(*devices) as timeline:
        run_blocks(model, x, cut, *devices)
    return [event.bytes for event in timeline.events if event.is_copy]
