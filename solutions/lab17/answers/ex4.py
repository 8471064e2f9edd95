"""Answers to exercise 4 that the grader is tested with. tests/support/answers.py says how to read them."""


# %% wrong: everything_over_the_slow_link
# Every rank adds up the whole tensor with its partners in the other nodes, and then with its node.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    whole = x.contiguous()
    dist.all_reduce(whole, group=between)
    dist.all_reduce(whole, group=in_node)
    x.copy_(whole)


# %% wrong: one_flat_all_reduce
# Adds up over all ranks at once.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    whole = x.contiguous()
    dist.all_reduce(whole)
    x.copy_(whole)


# %% wrong: one_rank_for_each_node
# The first rank of each node sends for all: a reduce, an all-reduce between the first ranks, and a broadcast.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    whole = x.contiguous().clone()
    first = dist.get_process_group_ranks(in_node)[0]
    dist.reduce(whole, dst=first, group=in_node)
    if dist.get_rank() == first:
        dist.all_reduce(whole, group=between)
    dist.broadcast(whole, src=first, group=in_node)
    x.copy_(whole)


# %% wrong: sum_of_the_node_first_in_full
# Reduces the whole tensor in the node before it shares out the shards.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each, place = dist.get_world_size(in_node), dist.get_rank(in_node)
    flat = x.flatten().clone()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    dist.all_reduce(padded, group=in_node)
    shard = padded.chunk(each)[place].clone()
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: mean
# Returns the mean, as data parallelism needs it.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    padded /= dist.get_world_size()
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: mean_in_the_node
# Averages in the node and adds up between nodes.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node, op=dist.ReduceOp.AVG)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: groups_swapped
# Scatters between nodes and adds up in the node: the whole tensor crosses the slow link.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(between)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=between)
    dist.all_reduce(shard, group=in_node)
    dist.all_gather_into_tensor(padded, shard, group=between)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: groups_returned_the_other_way
# Returns the group between nodes first.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own[::-1]


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: neighbors_between_nodes
# Takes ranks in a row for the group between nodes, one after the other.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place * (ranks // per_node), (place + 1) * (ranks // per_node))) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: own_groups_only
# Calls new_group for the groups that it is in, and leaves out the others.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            if dist.get_rank() in members:
                own[kind] = dist.new_group(members)
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: own_group_first
# Makes its own node's group first, so that ranks make groups in different orders.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in sorted(all_of_them, key=lambda members: dist.get_rank() not in members):
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: lists_of_ranks
# Returns the ranks of the groups, not groups.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = members
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: no_padding
# Thinks that the number of ranks in a node divides every tensor.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = flat.clone()
    shard = padded.new_empty(max(len(padded) // each, 1))
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: rest_left_out
# Leaves out the last elements where the sizes do not divide.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = flat[: len(flat) // each * each].clone()
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(torch.cat([padded, flat[len(padded) :]]).view_as(x))


# %% wrong: all_gathered_between_nodes
# Gathers the nodes' shards and adds them up itself, so that more and more passes as nodes are added.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    shards = [torch.empty_like(shard) for _ in range(dist.get_world_size(between))]
    dist.all_gather(shards, shard, group=between)
    shard = torch.stack(shards).sum(0)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: room_in_float32
# Makes room for the padded tensor in PyTorch's default dtype.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.zeros(-(-len(flat) // each) * each)
    padded[: len(flat)] = flat
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: returned_not_written
# Returns the sum and leaves x as it was.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    return padded[: len(flat)].view_as(x)


# %% wrong: shards_not_gathered
# Stops after the all-reduce, with the own shard alone.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    place = dist.get_rank(in_node)
    padded[place * len(shard) : (place + 1) * len(shard)] = shard
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: not_reduced_between
# Forgets the all-reduce between nodes.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.flatten()
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: view_of_x
# Thinks that every tensor is contiguous.

def node_groups(per_node):
    ranks, own = dist.get_world_size(), [None, None]
    nodes = [list(range(first, first + per_node)) for first in range(0, ranks, per_node)]
    places = [list(range(place, ranks, per_node)) for place in range(per_node)]
    for kind, all_of_them in enumerate((nodes, places)):
        for members in all_of_them:
            group = dist.new_group(members)
            if dist.get_rank() in members:
                own[kind] = group
    return own


def two_level_all_reduce(x, in_node, between):
    each = dist.get_world_size(in_node)
    flat = x.view(-1)
    padded = torch.nn.functional.pad(flat, (0, -len(flat) % each))
    shard = padded.new_empty(len(padded) // each)
    dist.reduce_scatter_tensor(shard, padded, group=in_node)
    dist.all_reduce(shard, group=between)
    dist.all_gather_into_tensor(padded, shard, group=in_node)
    x.copy_(padded[: len(flat)].view_as(x))


# %% wrong: memory_exchanged
# Gives x other memory, so that the tensor of which it is a part keeps the old values.

import torch
import torch.distributed as dist


def node_groups(per_node):
    rank, world = dist.get_rank(), dist.get_world_size()
    in_node = between = None
    for first in range(0, world, per_node):
        ranks = list(range(first, first + per_node))
        group = dist.new_group(ranks)
        if rank in ranks:
            in_node = group
    for place in range(per_node):
        ranks = list(range(place, world, per_node))
        group = dist.new_group(ranks)
        if rank in ranks:
            between = group
    return in_node, between


def two_level_all_reduce(x, in_node, between):
    size = in_node.size()
    flat = x.detach().flatten()
    shard = -(-flat.numel() // size)
    padded = flat.new_zeros(shard * size)
    padded[: flat.numel()] = flat
    mine = padded.new_empty(shard)
    dist.reduce_scatter_tensor(mine, padded, group=in_node)
    dist.all_reduce(mine, group=between)
    dist.all_gather_into_tensor(padded, mine, group=in_node)
    x.data = padded[: flat.numel()].view(x.shape)


# %% right: mesh
# Groups of a device mesh, and lists of shards of different sizes.

from torch.distributed.device_mesh import init_device_mesh


def node_groups(per_node):
    shape = dist.get_world_size() // per_node, per_node
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("node", "place"))
    return mesh.get_group("place"), mesh.get_group("node")


def two_level_all_reduce(x, in_node, between):
    each, place = dist.get_world_size(in_node), dist.get_rank(in_node)
    flat = x.detach().reshape(-1).clone()
    size = -(-flat.numel() // each)
    room = torch.zeros(size * each, dtype=x.dtype, device=x.device)
    room[: flat.numel()] = flat
    parts = list(room.split(size))
    own = torch.empty_like(parts[0])
    dist.reduce_scatter(own, parts, group=in_node)
    dist.all_reduce(own, group=between)
    parts = [torch.empty_like(own) for _ in range(each)]
    dist.all_gather(parts, own, group=in_node)
    x.copy_(torch.cat(parts)[: flat.numel()].reshape(x.shape))


# %% right: functional_collectives
# With functional collectives, and groups that PyTorch makes of ranks in a row.

import torch.distributed._functional_collectives as collectives


def node_groups(per_node):
    in_node, _ = dist.new_subgroups(group_size=per_node)
    ranks = dist.get_world_size()
    between, _ = dist.new_subgroups_by_enumeration(
        [[node * per_node + place for node in range(ranks // per_node)] for place in range(per_node)]
    )
    return in_node, between


def two_level_all_reduce(x, in_node, between):
    with torch.no_grad():
        each = in_node.size()
        flat = torch.nn.functional.pad(x.reshape(-1), (0, -x.numel() % each))
        shard = collectives.reduce_scatter_tensor(flat, "sum", 0, in_node)
        shard = collectives.all_reduce(shard, "sum", between)
        whole = collectives.all_gather_tensor(shard, 0, in_node)
        x.copy_(whole[: x.numel()].reshape(x.shape))


# %% right: asynchronous
# With calls that return at once, and a reduce-scatter and an all-gather between nodes, too.

def node_groups(per_node):
    ranks, rank = dist.get_world_size(), dist.get_rank()
    in_node = between = None
    for place in range(per_node):
        members = [rank for rank in range(ranks) if rank % per_node == place]
        group = dist.new_group(ranks=members, backend=None)
        between = group if rank in members else between
    for node in range(ranks // per_node):
        members = [node * per_node + place for place in range(per_node)]
        group = dist.new_group(ranks=members)
        in_node = group if rank in members else in_node
    return in_node, between


def scattered(flat, group):
    count = dist.get_world_size(group)
    padded = torch.cat([flat, flat.new_zeros(-len(flat) % count)])
    shard = padded.new_empty(len(padded) // count)
    dist.reduce_scatter_tensor(shard, padded, group=group, async_op=True).wait()
    return shard


def gathered(shard, group, size):
    whole = shard.new_empty(len(shard) * dist.get_world_size(group))
    work = dist.all_gather_into_tensor(whole, shard, group=group, async_op=True)
    work.wait()
    return whole[:size]


def two_level_all_reduce(x, in_node, between):
    own = scattered(x.flatten(), in_node)
    small = scattered(own, between)
    own = gathered(small, between, len(own))
    x.copy_(gathered(own, in_node, x.numel()).view(x.shape))
