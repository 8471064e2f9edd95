"""Thinks that every output has a backward graph."""

def bridges(output):
    waiting, seen = [output.grad_fn], set()
    count = 0
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if "ToCopyBackward" in node.name():
            count += 1
        for next_node, _ in node.next_functions:
            if next_node is not None:
                waiting.append(next_node)
    return count
