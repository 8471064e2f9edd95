"""Counts with hooks on the nodes while a backward runs, which leaves gradients and uses the graph up."""

def bridges(output):
    if output.grad_fn is None:
        return 0
    waiting, seen, crossed = [output.grad_fn], set(), []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
        node.register_hook(lambda left, came: crossed.append(1) if left and left[0].device != came[0].device else None)
    output.sum().backward()
    return len(crossed)
