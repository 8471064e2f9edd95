"""What the facts about lesson 17's tasks measure on a rank, with what the student wrote. All returns are plain data."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.distributed as dist

from utils.exercises.facts.probes import array, kind_of

WIDTH = 3


def split_exchange(rows: torch.Tensor, send: list[int], receive: list[int]) -> torch.Tensor:
    """The lesson's `exchange`: send[r] rows to rank r, receive[r] rows from it."""
    received = rows.new_empty(sum(receive), *rows.shape[1:])
    dist.all_to_all_single(received, rows.contiguous(), list(receive), list(send))
    return received


def rows_of(rank: int, count: int) -> torch.Tensor:
    """This rank's rows: rank, number, and their sum's square, so that none equals another."""
    numbers = torch.arange(count, dtype=torch.float32)
    return torch.stack([torch.full((count,), float(rank)), numbers, (10 * rank + numbers) ** 2], 1)


def here() -> torch.device:
    return torch.device("simgpu", dist.get_rank())


def dispatched(dispatch: Callable, chosen: list[list[int]]) -> dict:
    """What `dispatch` returns on this rank, whose row i has chosen expert chosen[rank][i]."""
    mine, experts = chosen[dist.get_rank()], dist.get_world_size()
    x = rows_of(dist.get_rank(), len(mine)).to(here())
    sent = []

    def exchange(rows, send, receive):
        sent.append(rows.nbytes)
        return split_exchange(rows, send, receive)

    found = dispatch(x, torch.tensor(mine, device=here(), dtype=torch.long), experts, exchange)
    if not (isinstance(found, tuple | list) and len(found) == 4):
        return {"wrong": f"it returned {kind_of(found)}. Return received, send, receive and order."}
    received, send, receive, order = found
    for name, one in (("received", received), ("order", order)):
        if not isinstance(one, torch.Tensor):
            return {"wrong": f"{name} is {kind_of(one)}. Return a tensor."}
    for name, one in (("send", send), ("receive", receive)):
        if not isinstance(one, list | tuple):
            return {"wrong": f"{name} is {kind_of(one)}. Return a list: tolist() makes one."}
    return {
        "received": array(received),
        "send": [int(each) for each in send],
        "receive": [int(each) for each in receive],
        "order": [int(each) for each in order.tolist()],
        "bytes": sum(sent),
    }


def combined(combine: Callable, chosen: list[list[int]]) -> dict:
    """What `combine` returns on this rank, if each expert multiplies the rows that it received by its number + 2."""
    from utils.exercises.tasks.lesson17.worked import dispatch

    mine, experts = chosen[dist.get_rank()], dist.get_world_size()
    x = rows_of(dist.get_rank(), len(mine)).to(here())
    received, *how = dispatch(x, torch.tensor(mine, device=here(), dtype=torch.long), experts, split_exchange)
    found = combine((2.0 + dist.get_rank()) * received, *how, split_exchange)
    if not isinstance(found, torch.Tensor):
        return {"wrong": f"it returned {kind_of(found)}. Return a tensor."}
    return {"rows": array(found)}


def exchanged(all_to_all: type, splits: list[list[int]]) -> dict:
    """What `AllToAll` gives forward and backward on this rank, in a group of as many of the last ranks as splits has.

    splits[r][s]: how many rows rank r of the group sends to its rank s.
    """
    rank, ranks = dist.get_rank(), dist.get_world_size()
    members = list(range(ranks - len(splits), ranks))
    group = dist.new_group(members)
    if rank not in members:
        return {}
    place = members.index(rank)
    send, receive = list(splits[place]), [one[place] for one in splits]
    rows = rows_of(rank, sum(send)).to(here()).requires_grad_()
    output = all_to_all.apply(rows, send, receive, group)
    if not isinstance(output, torch.Tensor):
        return {"wrong": f"forward returned {kind_of(output)}, not a tensor."}
    # Row i of what rank r received has the gradient (100 r + i), in each of its numbers; expand makes no copy.
    weights = (100.0 * place + torch.arange(sum(receive), device=here()))[:, None].expand(-1, WIDTH)
    if output.requires_grad:
        output.backward(weights)
    return {
        "received": array(output),
        "gradient": None if rows.grad is None else array(rows.grad),
    }
