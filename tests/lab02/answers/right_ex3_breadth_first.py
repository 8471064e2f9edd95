"""Goes through the graph level by level, with the type's name, and prints the nodes."""

def bridges(output):
    level = {output.grad_fn} - {None}
    seen = set(level)
    while level:
        level = {n for node in level for n, _ in node.next_functions} - seen - {None}
        seen |= level
    names = [type(node).__name__ for node in seen]
    print(names)
    return len([name for name in names if name.startswith("ToCopyBackward")])
