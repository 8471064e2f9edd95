"""Looks for a name that is written down a little wrong."""

def bridges(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
    return sum(node.name() == "ToCopyBackward" for node in seen)
