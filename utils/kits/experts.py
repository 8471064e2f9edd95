"""What lab 17 counts: how long a step takes with experts placed on ranks."""

from __future__ import annotations


def step_seconds(tokens, placement, per_node, expert_seconds, network_seconds) -> float:
    """The rank with the most tokens decides, then the node that sends or receives the most tokens."""
    nodes = len(tokens) // per_node
    load, leave, arrive = [0] * len(tokens), [0] * nodes, [0] * nodes
    for source, row in enumerate(tokens):
        for expert, count in enumerate(row):
            rank = placement[expert]
            load[rank] += count
            if rank // per_node != source // per_node:
                leave[source // per_node] += count
                arrive[rank // per_node] += count
    return max(load) * expert_seconds + max(leave + arrive) * network_seconds
