# %% wrong: first_path_only
# Follows the first of the next functions, as if the graph were a list.

def graph_nodes(output):
    names, node = [], output.grad_fn
    while node is not None:
        names.append(node.name())
        node = node.next_functions[0][0] if node.next_functions else None
    return names


# %% wrong: none_not_skipped
# Does not know that a pair may have None for a node.

def graph_nodes(output):
    names, seen, waiting = [], set(), [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        names.append(node.name())
        waiting += [next_node for next_node, _ in node.next_functions]
    return names


# %% wrong: each_path_counts
# Walks each path, so a node is found as often as paths lead to it.

def graph_nodes(output):
    names, waiting = [], [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.append(node.name())
            waiting += [next_node for next_node, _ in node.next_functions]
    return names


# %% wrong: names_seen_in_place_of_nodes
# Takes two nodes of one name for the same node.

def graph_nodes(output):
    names, waiting = [], [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node.name() not in names:
            names.append(node.name())
            waiting += [next_node for next_node, _ in node.next_functions]
    return names


# %% wrong: nodes_in_place_of_names
# Returns the nodes themselves.

def graph_nodes(output):
    seen, waiting = [], [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.append(node)
            waiting += [next_node for next_node, _ in node.next_functions]
    return seen


# %% wrong: first_step_only
# Returns the nodes next to the first, as the lesson's cell prints them.

def graph_nodes(output):
    return [output.grad_fn.name()] + [node.name() for node, _ in output.grad_fn.next_functions if node]


# %% right: recursive
# A function that calls itself, with a dict of those that it has met.

def graph_nodes(output):
    met = {}

    def visit(node):
        if node and node not in met:
            met[node] = node.name()
            for following, _ in node.next_functions:
                visit(following)

    visit(output.grad_fn)
    return list(met.values())


# %% right: a_set_of_nodes_grows
# Adds all neighbours until nothing is new.

def graph_nodes(output):
    nodes, new = set(), {output.grad_fn}
    while new:
        nodes |= new
        new = {n for node in new for n, _ in node.next_functions if n is not None} - nodes
    return [node.name() for node in nodes]
