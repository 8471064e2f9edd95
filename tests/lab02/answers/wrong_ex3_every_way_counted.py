"""Counts a node as often as ways lead to it."""

def bridges(output):
    def walk(node):
        if node is None:
            return 0
        here = 1 if node.name().startswith("ToCopyBackward") else 0
        return here + sum(walk(next_node) for next_node, _ in node.next_functions)

    return walk(output.grad_fn)
