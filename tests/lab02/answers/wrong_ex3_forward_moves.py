"""Counts the copy of the batch too: adds one for the move from the CPU."""

def bridges(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
    return 1 + sum(node.name().startswith("ToCopyBackward") for node in seen)
