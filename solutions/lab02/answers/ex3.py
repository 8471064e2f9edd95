# %% wrong: all_in_a_row
# Thinks that all bridges lie one behind the other.

def nodes_of(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return seen


def bridges(output):
    count = sum(node.name().startswith("ToCopyBackward") for node in nodes_of(output))
    return count, count


# %% wrong: depth_first_first_visit
# Thinks that a node is done when a walk in depth has met it, though a longer way leads there too.

def bridges(output):
    seen, result = set(), [0, 0]

    def walk(node, depth):
        if node is None or node in seen:
            return
        seen.add(node)
        if node.name().startswith("ToCopyBackward"):
            result[0] += 1
            depth += 1
        result[1] = max(result[1], depth)
        for after, _ in node.next_functions:
            walk(after, depth)

    walk(output.grad_fn, 0)
    return tuple(result)


# %% wrong: depth_of_the_first_visit
# Thinks that a node is done when a walk in breadth has met it, though a longer way leads there too.

def bridges(output):
    if output.grad_fn is None:
        return 0, 0
    seen, queue = {output.grad_fn}, [(output.grad_fn, 0)]
    count = most = 0
    while queue:
        node, depth = queue.pop(0)
        if node.name().startswith("ToCopyBackward"):
            count += 1
            depth += 1
        most = max(most, depth)
        for after, _ in node.next_functions:
            if after is not None and after not in seen:
                seen.add(after)
                queue.append((after, depth))
    return count, most


# %% wrong: device_of_the_output
# Thinks that an output that is not on the CPU has crossed one bridge.

def count(output):
    return int(output.device.type != "cpu" and output.grad_fn is not None)


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: every_way_counted
# Counts a node as often as ways lead to it.

def count(output):
    def walk(node):
        if node is None:
            return 0
        here = 1 if node.name().startswith("ToCopyBackward") else 0
        return here + sum(walk(next_node) for next_node, _ in node.next_functions)

    return walk(output.grad_fn)


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: exact_name
# Looks for a name that is written down a little wrong.

def count(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
    return sum(node.name() == "ToCopyBackward" for node in seen)


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: first_branch_only
# Follows only the first of the next functions.

def count(output):
    count, node = 0, output.grad_fn
    while node is not None:
        count += node.name().startswith("ToCopyBackward")
        node = node.next_functions[0][0] if node.next_functions else None
    return count


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: forward_moves
# Counts the copy of the batch too: adds one for the move from the CPU.

def count(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [next_node for next_node, _ in node.next_functions]
    return 1 + sum(node.name().startswith("ToCopyBackward") for node in seen)


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: no_graph_forgotten
# Thinks that every output has a backward graph.

def count(output):
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


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: nodes_in_a_row
# Counts the nodes on the longest way, not the bridges.

def nodes_of(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return seen


def bridges(output):
    def row(node):
        if node is None:
            return 0
        return 1 + max((row(next_node) for next_node, _ in node.next_functions), default=0)

    return sum(node.name().startswith("ToCopyBackward") for node in nodes_of(output)), row(output.grad_fn)


# %% wrong: returns_nodes
# Returns the nodes that it found, not their number.

def count(output):
    waiting, found = [output.grad_fn], []
    while waiting:
        node = waiting.pop()
        if node is not None:
            if node.name().startswith("ToCopyBackward") and node not in found:
                found.append(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return found


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: row_of_the_first_way
# Follows only the first path for the longest chain of bridges.

def nodes_of(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return seen


def bridges(output):
    count = sum(node.name().startswith("ToCopyBackward") for node in nodes_of(output))
    row, node = 0, output.grad_fn
    while node is not None:
        row += node.name().startswith("ToCopyBackward")
        node = node.next_functions[0][0] if node.next_functions else None
    return count, row


# %% wrong: runs_backward
# Counts with hooks on the nodes while a backward runs, which leaves gradients and uses the graph up.

def count(output):
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


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    longest = in_a_row(output.grad_fn, {})
    return count(output), longest


# %% wrong: set_of_names
# Remembers the names of nodes, so that all bridges are one.

def count(output):
    waiting, names = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.add(node.name())
            waiting += [next_node for next_node, _ in node.next_functions]
    return len([name for name in names if name.startswith("ToCopyBackward")])


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: shortest_row
# Takes the least of the ways where they meet, not the most.

def nodes_of(output):
    waiting, seen = [output.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return seen


def bridges(output):
    def row(node):
        if node is None:
            return 0
        ways = [row(next_node) for next_node, _ in node.next_functions if next_node is not None]
        return min(ways, default=0) + node.name().startswith("ToCopyBackward")

    return sum(node.name().startswith("ToCopyBackward") for node in nodes_of(output)), row(output.grad_fn)


# %% wrong: stack_first_visit
# Walks with a stack and thinks that a node met once is done, even if more bridges lead to it.

def bridges(output):
    count, most = 0, 0
    seen, waiting = set(), [(output.grad_fn, 0)]
    while waiting:
        node, row = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name().startswith("ToCopyBackward"):
            count, row = count + 1, row + 1
        most = max(most, row)
        waiting += [(next_node, row) for next_node, _ in node.next_functions]
    return count, most


# %% wrong: stops_at_the_first
# Stops at the first bridge, because a split model has only one.

def count(output):
    waiting = [output.grad_fn]
    while waiting:
        node = waiting.pop(0)
        if node is None:
            continue
        if node.name().startswith("ToCopyBackward"):
            return 1
        waiting += [next_node for next_node, _ in node.next_functions]
    return 0


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% wrong: numbers_exchanged
# Returns both numbers in the other order.

def bridges(output):
    longest = {None: 0}

    def look(node):
        if node not in longest:
            behind = [look(next_node) for next_node, _ in node.next_functions]
            longest[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
        return longest[node]

    in_a_row = look(output.grad_fn)
    return in_a_row, len([node for node in longest if node is not None and node.name().startswith("ToCopyBackward")])


# %% right: breadth_first
# Goes through the graph level by level, a longer chain found later corrects the nodes behind it; prints the nodes.

def bridges(output):
    first = output.grad_fn
    if first is None:
        return 0, 0
    rows = {first: int(first.name().startswith("ToCopyBackward"))}
    level = [first]
    while level:
        following = []
        for node in level:
            for other, _ in node.next_functions:
                if other is not None:
                    row = rows[node] + other.name().startswith("ToCopyBackward")
                    if row > rows.get(other, -1):
                        rows[other] = row
                        following.append(other)
        level = following
    found = [node for node in rows if type(node).__name__.startswith("ToCopyBackward")]
    print(found)
    return len(found), max(rows.values())


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


def count(output):
    if output.grad_fn is None:
        warnings.warn("no backward graph", stacklevel=2)
    return len([1 for node in nodes_of(output) if node.name() == "ToCopyBackward0"])


def in_a_row(node, known):
    if node is None:
        return 0
    if node not in known:
        behind = [in_a_row(next_node, known) for next_node, _ in node.next_functions]
        known[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
    return known[node]


def bridges(output):
    return count(output), in_a_row(output.grad_fn, {})


# %% right: recursion
# One recursion that gives the bridges behind a node as a set, and the longest chain.

def bridges(output):
    known = {}

    def behind(node):
        if node is None:
            return set(), 0
        if node not in known:
            found, longest = set(), 0
            for next_node, _ in node.next_functions:
                more, row = behind(next_node)
                found |= more
                longest = max(longest, row)
            if "ToCopyBackward" in node.name():
                found.add(node)
                longest += 1
            known[node] = found, longest
        return known[node]

    found, longest = behind(output.grad_fn)
    return [len(found), longest]


# %% wrong: moved_twice_is_once
# Thinks that a tensor which is moved twice to one place crosses one bridge.

def bridges(output):
    longest = {None: 0}  # for each node: the most bridges on one path from it on

    def look(node):
        if node not in longest:
            after = {(n.name(), n.next_functions): n for n, _ in node.next_functions if n is not None}
            behind = [look(next_node) for next_node in after.values()]
            longest[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
        return longest[node]

    in_a_row = look(output.grad_fn)
    found = [node for node in longest if node is not None and node.name().startswith("ToCopyBackward")]
    return len(found), in_a_row


# %% wrong: every_way_until_it_gives_up
# Walks each way from the output, and gives up where there are too many.

def bridges(output):
    found, steps = set(), 0

    def walk(node, row):
        nonlocal steps
        steps += 1
        if steps > 50_000:
            raise RuntimeError("too many ways")
        if node is None:
            return row
        if node.name().startswith("ToCopyBackward"):
            found.add(node)
            row += 1
        return max([walk(next_node, row) for next_node, _ in node.next_functions], default=row)

    row = walk(output.grad_fn, 0)
    return len(found), row


# %% wrong: first_and_last_way
# Thinks that a node has two ways at most, and follows the first and the last; that of a linear layer's input lies
# between.

def bridges(output):
    longest = {None: 0}  # for each node: the most bridges on one path from it on

    def look(node):
        if node not in longest:
            behind = node.next_functions and [
                look(next_node) for next_node, _ in {node.next_functions[0], node.next_functions[-1]}
            ]
            longest[node] = max(behind, default=0) + node.name().startswith("ToCopyBackward")
        return longest[node]

    in_a_row = look(output.grad_fn)
    found = [node for node in longest if node is not None and node.name().startswith("ToCopyBackward")]
    return len(found), in_a_row
