# %% wrong: first_dimension_is_inside
# Numbers the mesh the other way around: neighbors along the first dimension are next to each other.

def where(rank, sizes, per_node):
    groups, stride = {}, 1
    for name, size in sizes.items():
        place = rank // stride % size
        groups[name] = [rank + (i - place) * stride for i in range(size)]
        stride *= size
    leaving = [n for n, g in groups.items() if len({r // per_node for r in g}) > 1]
    return rank // per_node, rank % per_node, groups, leaving


# %% wrong: groups_are_neighbors
# Every group is made of neighboring ranks, whatever dimension it is of.

def where(rank, sizes, per_node):
    groups = {}
    for name, size in sizes.items():
        first = rank // size * size
        groups[name] = list(range(first, first + size))
    leaving = [n for n, g in groups.items() if len({r // per_node for r in g}) > 1]
    return rank // per_node, rank % per_node, groups, leaving


# %% wrong: larger_than_a_node_leaves
# Thinks that a group leaves its node only if it has more ranks than a node.

import torch


def where(rank, sizes, per_node):
    mesh = torch.arange(torch.tensor(list(sizes.values())).prod().item()).view(*sizes.values())
    place = [int(p) for p in (mesh == rank).nonzero()[0]]
    groups = {}
    for axis, name in enumerate(sizes):
        index = list(place)
        index[axis] = slice(None)
        groups[name] = mesh[tuple(index)].tolist()
    leaving = [name for name, size in sizes.items() if size > per_node]
    return rank // per_node, rank % per_node, groups, leaving


# %% wrong: node_and_local_rank_dealt_out
# Deals the ranks out to the nodes in turn, like cards.

import math


def where(rank, sizes, per_node):
    nodes = math.ceil(math.prod(sizes.values()) / per_node)
    groups, stride = {}, math.prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        place = rank // stride % size
        groups[name] = [rank + (i - place) * stride for i in range(size)]
    leaving = [n for n, g in groups.items() if len({r % nodes for r in g}) > 1]
    return rank % nodes, rank // nodes, groups, leaving


# %% wrong: leaving_as_of_rank_0
# Looks at rank 0's group only, and takes it that all others leave their node as it does.

import math


def where(rank, sizes, per_node):
    groups, leaving, stride = {}, [], math.prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        place = rank // stride % size
        groups[name] = [rank + (i - place) * stride for i in range(size)]
        if (size - 1) * stride >= per_node:
            leaving.append(name)
    return rank // per_node, rank % per_node, groups, leaving


# %% wrong: group_without_itself
# A group is whom a rank talks to, so it leaves itself out.

import math


def where(rank, sizes, per_node):
    groups, stride = {}, math.prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        place = rank // stride % size
        groups[name] = [rank + (i - place) * stride for i in range(size) if i != place]
    leaving = [n for n, g in groups.items() if {r // per_node for r in g} - {rank // per_node}]
    return rank // per_node, rank % per_node, groups, leaving


# %% wrong: empties_sizes
# Takes the dimensions off with popitem, so that the caller's sizes are empty afterwards.

def where(rank, sizes, per_node):
    groups, leaving, stride = {}, [], 1
    while sizes:
        name, size = sizes.popitem()
        first = rank - (rank // stride % size) * stride
        groups = {name: [first + n * stride for n in range(size)]} | groups
        if len({each // per_node for each in groups[name]}) > 1:
            leaving.insert(0, name)
        stride *= size
    return rank // per_node, rank % per_node, groups, leaving


# %% right: a_mesh_of_numbers
# torch.arange as a mesh, and a slice through the place of the rank.

import torch


def where(rank, sizes, per_node):
    mesh = torch.arange(math.prod(sizes.values())).reshape(list(sizes.values()))
    place = (mesh == rank).nonzero()[0].tolist()
    groups = {}
    for axis, name in enumerate(sizes):
        index = [slice(None) if a == axis else p for a, p in enumerate(place)]
        groups[name] = mesh[tuple(index)].tolist()
    leaving = [name for name, ranks in groups.items() if len({r // per_node for r in ranks}) > 1]
    return rank // per_node, rank % per_node, groups, leaving


# %% right: all_places
# The place of every rank, and those that agree in all but one.

from itertools import product


def where(rank, sizes, per_node):
    places = list(product(*(range(size) for size in sizes.values())))
    mine = places[rank]
    groups = {}
    for axis, name in enumerate(sizes):
        groups[name] = [
            number
            for number, place in enumerate(places)
            if place[:axis] + place[axis + 1 :] == mine[:axis] + mine[axis + 1 :]
        ]
    node, local_rank = divmod(rank, per_node)
    leaving = {name for name, group in groups.items() if any(each // per_node != node for each in group)}
    return node, local_rank, groups, leaving


# %% right: from_the_inside
# Strides from the innermost dimension outwards; ranges, made lists.

def where(rank, sizes, per_node):
    stride, groups = 1, {}
    for name in reversed(sizes):
        size = sizes[name]
        offset = (rank // stride) % size
        start = rank - offset * stride
        groups[name] = list(range(start, start + size * stride, stride))
        stride *= size
    groups = {name: groups[name] for name in sizes}
    leaving = []
    for name, group in groups.items():
        if min(group) // per_node != max(group) // per_node:
            leaving.append(name)
    return [rank // per_node, rank % per_node, groups, leaving]


# %% wrong: sorted_by_name
# Goes through the dimensions in the order of their names, as if data were always outside and tensor inside.

def where(rank, sizes, per_node):
    groups, stride = {}, math.prod(sizes.values())
    for name, size in sorted(sizes.items()):
        stride //= size
        first = rank - rank // stride % size * stride
        groups[name] = [first + place * stride for place in range(size)]
    leaving = [name for name, group in groups.items() if group[0] // per_node != group[-1] // per_node]
    return rank // per_node, rank % per_node, groups, leaving


# %% wrong: three_names
# Knows the three names of the trials, and leaves out every other dimension.

def where(rank, sizes, per_node):
    sizes = {name: size for name, size in sizes.items() if name in ("data", "pipeline", "tensor")}
    groups, stride = {}, math.prod(sizes.values())
    for name, size in sizes.items():
        stride //= size
        first = rank - rank // stride % size * stride
        groups[name] = [first + place * stride for place in range(size)]
    leaving = [name for name, group in groups.items() if group[0] // per_node != group[-1] // per_node]
    return rank // per_node, rank % per_node, groups, leaving
