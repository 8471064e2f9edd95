"""A backward pass in two halves: the gradient of a stage's input at once, those of its weights when there is time.

    passed, later = backward_for_inputs(output, x, gradient)
    ...
    backward_for_weights(later)

On the way from the output to the input the graph has branches that end in parameters. The first half goes the way and
keeps the gradient that arrives at each node with such a branch; the second half starts from these and goes the branches
only. (So does PyTorch's pipelining: Qi et al., 2024, arXiv 2401.10241 say why.)
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge


class Branches(NamedTuple):
    """Nodes with branches to the same parameters, and what arrived at them."""

    nodes: dict[Node, tuple]
    parameters: list[torch.Tensor]


def backward_for_inputs(output, x, gradient=None) -> tuple[torch.Tensor, list[Branches]]:
    """The gradient of `x`, and what the other half needs."""
    branches = _branches(get_gradient_edge(output).node, get_gradient_edge(x).node)  # both are x's, if output is x
    arrived: dict[Node, tuple] = {}
    hooks = [node.register_prehook(partial(arrived.__setitem__, node)) for node in branches]
    try:
        (passed,) = torch.autograd.grad(output, x, gradient, retain_graph=True)
    finally:
        for hook in hooks:
            hook.remove()
    return passed, [
        Branches({node: arrived[node] for node in nodes}, [_parameter(leaf) for leaf in leaves])
        for nodes, leaves in _grouped(branches)
    ]


def backward_for_weights(later: list[Branches]) -> None:
    """Adds the gradients of the weights to their `grad`, and forgets what it needed for that."""
    while later:
        nodes, parameters = later.pop()
        # Where a parameter is used twice, one of its nodes is reached from another as well: it has had that already.
        again = nodes.items() if len(nodes) > 1 else ()
        hooks = [node.register_prehook(lambda _, own=arrived: own) for node, arrived in again]
        edges = [
            (GradientEdge(node, place), gradient)
            for node, arrived in nodes.items()
            for place, gradient in enumerate(arrived)
            if gradient is not None
        ]
        try:
            # Nodes that are passed on the way to a parameter used twice may be where others begin.
            torch.autograd.backward(*zip(*edges, strict=True), retain_graph=bool(later), inputs=parameters)
        finally:
            for hook in hooks:
                hook.remove()


def _parameter(leaf: Any) -> torch.Tensor:
    """The tensor whose `grad` a leaf adds to."""
    return leaf.variable


def _branches(root: Node, end: Node) -> dict[Node, set[Node]]:
    """The nodes on the way from `root` to `end` that have branches, and the leaves of those."""
    leads, leaves = {end: True}, {end: set()}
    for node in _leaves_first(root):
        after = [child for child, _ in node.next_functions if child is not None]
        leads[node] = node is end or any(leads[child] for child in after)
        leaves[node] = {node} if hasattr(node, "variable") else set().union(*(leaves[child] for child in after))
    return {
        node: own
        for node, is_on_the_way in leads.items()
        if is_on_the_way
        and (own := set().union(*(leaves[child] for child, _ in node.next_functions if child and not leads[child])))
    }


def _leaves_first(root: Node) -> list[Node]:
    """All nodes of a graph, each after those that it leads to."""
    found: dict[Node, None] = {}
    stack = [(root, False)]
    while stack:
        node, is_left = stack.pop()
        if is_left:
            found[node] = None
        elif node not in found:
            stack.append((node, True))
            stack += [(child, False) for child, _ in node.next_functions if child is not None and child not in found]
    return list(found)


def _grouped(branches: dict[Node, set[Node]]) -> list[tuple[list[Node], set[Node]]]:
    """Nodes that share a leaf are one group."""
    groups: list[tuple[list[Node], set[Node]]] = []
    for node, leaves in branches.items():
        shared = [group for group in groups if not leaves.isdisjoint(group[1])]
        groups = [group for group in groups if group not in shared]
        groups.append((sum((nodes for nodes, _ in shared), [node]), leaves.union(*(each for _, each in shared))))
    return groups
