"""Goes down the graph by recursion and remembers the nodes."""

def bridges(output):
    seen = set()

    def walk(node):
        if node is None or node in seen:
            return 0
        seen.add(node)
        return ("ToCopyBackward" in node.name()) + sum(walk(next_node) for next_node, _ in node.next_functions)

    return walk(output.grad_fn)
