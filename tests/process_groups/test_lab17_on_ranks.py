"""Lab 17's functions also run where ranks are processes: its text says so."""

import nbformat
import pytest
import torch
import torch.distributed as dist
from torch import nn

from tests.support.answers import answers_of
from tests.support.notebooks import source_of
from utils.ranks import ranks

pytestmark = pytest.mark.slow

TOKENS = (4, 0, 6, 3)


def defined_by(*sources: str) -> dict:
    names = {"torch": torch, "dist": dist, "nn": nn, "__name__": "__main__"}
    for source in sources:
        exec(source, names)
    return names


def model_answers() -> dict:
    notebook = nbformat.read(source_of("lab17"), 4)
    cells = {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in notebook.cells}
    return defined_by(cells["ex1"], cells["ex4"])


def parts():
    """The router, all experts, and each rank's tokens: the same in every process."""
    torch.manual_seed(0)
    return nn.Linear(6, 8), [nn.Linear(6, 6) for _ in range(8)], [torch.randn(count, 6) for count in TOKENS]


def on_a_rank(expert_layer, node_groups, two_level_all_reduce):
    rank = dist.get_rank()
    router, experts, tokens = parts()
    x, own = tokens[rank].to(f"simgpu:{rank}").requires_grad_(), experts[2 * rank : 2 * rank + 2]
    output = expert_layer(x, router.to(x.device), [expert.to(x.device) for expert in own], 2)
    output.square().sum().backward()
    total = torch.arange(7.0, device=x.device) * (rank + 1)
    two_level_all_reduce(total, *node_groups(2))
    return output.detach(), x.grad, [expert.weight.grad for expert in own], total


def right() -> tuple[list, list, list]:
    router, experts, tokens = parts()
    x = torch.cat(tokens).requires_grad_()
    weights, chosen = router(x).softmax(-1).topk(2, -1)
    outputs = torch.stack([expert(x) for expert in experts], 1)
    output = (outputs.gather(1, chosen[..., None].expand(-1, -1, 6)) * weights[..., None]).sum(1)
    output.square().sum().backward()
    return output.detach().split(TOKENS), x.grad.split(TOKENS), [expert.weight.grad for expert in experts]


def functions(names: dict) -> list:
    return [names[name] for name in ("expert_layer", "node_groups", "two_level_all_reduce")]


@pytest.mark.parametrize("answer", ["the model answer", "functional_collectives"])
def test_values_and_gradients_are_those_of_one_device(answer):
    names = model_answers()
    if answer != "the model answer":
        names |= defined_by(*[one.code for one in answers_of("lab17", "right") if one.name == answer])
    outputs, gradients, of_experts = right()
    for rank, (output, gradient, own, total) in enumerate(ranks(4, nodes=2).run(on_a_rank, *functions(names))):
        torch.testing.assert_close(output, outputs[rank])
        torch.testing.assert_close(gradient, gradients[rank])
        torch.testing.assert_close(own, of_experts[2 * rank : 2 * rank + 2])
        assert total.tolist() == [10.0 * number for number in range(7)]
