"""A generator of nodes with a deque, and a warning where there is no graph."""

import warnings
from collections import deque


def nodes_of(output):
    queue, known = deque([output.grad_fn]), {None}
    while queue:
        node = queue.popleft()
        if node not in known:
            known.add(node)
            yield node
            queue.extend(pair[0] for pair in node.next_functions)


def bridges(output):
    if output.grad_fn is None:
        warnings.warn("no backward graph", stacklevel=2)
    return len([1 for node in nodes_of(output) if node.name() == "ToCopyBackward0"])
