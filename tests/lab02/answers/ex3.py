# %% wrong: device_of_the_output
# Thinks that an output that is not on the CPU has crossed one bridge.

def bridges(output):
    return int(output.device.type != "cpu" and output.grad_fn is not None)


# %% wrong: every_way_counted
# Counts a node as often as ways lead to it.

def bridges(output):
    def walk(node):
        if node is None:
            return 0
        here = 1 if node.name().startswith("ToCopyBackward") else 0
        return here + sum(walk(next_node) for next_node, _ in node.next_functions)

    return walk(output.grad_fn)


# %% wrong: exact_name
# Looks for a name that is written down a little wrong.

def bridges(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
    return sum(node.name() == "ToCopyBackward" for node in seen)


# %% wrong: first_branch_only
# Follows only the first of the next functions.

def bridges(output):
    count, node = 0, output.grad_fn
    while node is not None:
        count += node.name().startswith("ToCopyBackward")
        node = node.next_functions[0][0] if node.next_functions else None
    return count


# %% wrong: forward_moves
# Counts the copy of the batch too: adds one for the move from the CPU.

def bridges(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
    return 1 + sum(node.name().startswith("ToCopyBackward") for node in seen)


# %% wrong: no_graph_forgotten
# Thinks that every output has a backward graph.

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


# %% wrong: returns_nodes
# Returns the nodes that it found, not their number.

def bridges(output):
    waiting, found = [output.grad_fn], []
    while waiting:
        node = waiting.pop()
        if node is not None:
            if node.name().startswith("ToCopyBackward") and node not in found:
                found.append(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return found


# %% wrong: runs_backward
# Counts with hooks on the nodes while a backward runs, which leaves gradients and uses the graph up.

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


# %% wrong: set_of_names
# Remembers the names of nodes, so that all bridges are one.

def bridges(output):
    waiting, names = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.add(node.name())
            waiting += [next_node for next_node, _ in node.next_functions]
    return len([name for name in names if name.startswith("ToCopyBackward")])


# %% wrong: stops_at_the_first
# Stops at the first bridge, because a split model has only one.

def bridges(output):
    waiting = [output.grad_fn]
    while waiting:
        node = waiting.pop(0)
        if node is None:
            continue
        if node.name().startswith("ToCopyBackward"):
            return 1
        waiting += [next_node for next_node, _ in node.next_functions]
    return 0


# %% right: breadth_first
# Goes through the graph level by level, with the type's name, and prints the nodes.

def bridges(output):
    level = {output.grad_fn} - {None}
    seen = set(level)
    while level:
        level = {n for node in level for n, _ in node.next_functions} - seen - {None}
        seen |= level
    names = [type(node).__name__ for node in seen]
    print(names)
    return len([name for name in names if name.startswith("ToCopyBackward")])


# %% right: generator
# A generator of nodes with a deque, and a warning where there is no graph.

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


# %% right: recursion
# Goes down the graph by recursion and remembers the nodes.

def bridges(output):
    seen = set()

    def walk(node):
        if node is None or node in seen:
            return 0
        seen.add(node)
        return ("ToCopyBackward" in node.name()) + sum(walk(next_node) for next_node, _ in node.next_functions)

    return walk(output.grad_fn)
