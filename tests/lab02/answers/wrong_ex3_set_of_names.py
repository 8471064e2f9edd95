"""Remembers the names of nodes, so that all bridges are one."""

def bridges(output):
    waiting, names = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.add(node.name())
            waiting += [next_node for next_node, _ in node.next_functions]
    return len([name for name in names if name.startswith("ToCopyBackward")])
