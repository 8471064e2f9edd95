"""Ranks that do not fit together: within seconds one message says who does what, and nobody waits for ever."""

import os
import signal

import pytest
import torch
import torch.distributed as dist

from . import forked

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("torchrun")]


def mine(rank, count=4, dtype=torch.float32):
    return torch.ones(count, dtype=dtype, device=f"simgpu:{rank}")


def another_shape(rank):
    dist.all_reduce(mine(rank, 4 + rank))


def another_dtype(rank):
    dist.all_reduce(mine(rank, dtype=[torch.float32, torch.float16][rank]))


def another_reduction(rank):
    dist.all_reduce(mine(rank), [dist.ReduceOp.SUM, dist.ReduceOp.MAX][rank])


def another_root(rank):
    dist.broadcast(mine(rank), rank)


def another_order(rank):
    calls = [lambda: dist.all_reduce(mine(rank)), lambda: dist.broadcast(mine(rank), 0)]
    for call in calls if rank == 0 else reversed(calls):
        call()


def another_collective(rank):
    if rank == 0:
        dist.all_reduce(mine(rank))
    else:
        dist.barrier()


SAME_ORDER = "the ranks of a group have to call the same collectives in the same order, and did not. "


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (another_shape, "rank 0: all_reduce(float32[4], SUM); rank 1: all_reduce(float32[5], SUM)"),
        (another_dtype, "rank 0: all_reduce(float32[4], SUM); rank 1: all_reduce(float16[4], SUM)"),
        (another_reduction, "rank 0: all_reduce(float32[4], SUM); rank 1: all_reduce(float32[4], MAX)"),
        (another_root, "rank 0: broadcast(float32[4], from 0); rank 1: broadcast(float32[4], from 1)"),
        (another_order, "rank 0: all_reduce(float32[4], SUM); rank 1: broadcast(float32[4], from 0)"),
        (another_collective, "rank 0: all_reduce(float32[4], SUM); rank 1: barrier()"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_both_ranks_are_told_what_each_was_about_to_do(fault, says):
    assert forked.run(fault) == [f"Mismatch: {SAME_ORDER}{says}"] * 2


def nobody_comes(rank):
    if rank == 0:
        dist.all_reduce(mine(rank))


def nobody_sends(rank):
    if rank == 0:
        dist.recv(mine(rank), 1)


def both_receive_first(rank):
    dist.recv(mine(rank), 1 - rank)
    dist.send(mine(rank), 1 - rank)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (nobody_comes, "all_reduce(float32[4], SUM), and nobody will come: rank 1 has ended"),
        (nobody_sends, "recv(float32[4], src=1), and nobody will come: rank 1 has ended"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_who_waits_for_what_will_not_come_is_told_so(fault, says):
    assert forked.run(fault)[0] == f"NobodyCame: rank 0 waited in {says}"


def test_two_who_both_receive_first_are_told_so():
    told = forked.run(both_receive_first)
    waits = "NobodyCame: rank {} waited in recv(float32[4], src={}), and nobody will come: rank {} "
    full = [waits.format(r, 1 - r, 1 - r) + f"waits in recv(float32[4], src={r}) (its wait 2)" for r in range(2)]
    # The one that looks later may find that the other has given up.
    late = [waits.format(r, 1 - r, 1 - r) + "has ended" for r in range(2)]
    assert all(each in (full[rank], late[rank]) for rank, each in enumerate(told)), told
    assert told != late


def one_is_killed(rank):
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(mine(rank))


def test_who_waits_for_a_rank_that_died_is_told_so():
    says = "NobodyCame: rank 0 waited in all_reduce(float32[4], SUM), and nobody will come: rank 1 has died"
    assert forked.run(one_is_killed) == [says, "died"]


def sent_as_another_shape(rank):
    if rank == 0:
        dist.send(mine(rank, 4), 1)
    else:
        dist.recv(mine(rank, 8), 0)


def test_a_message_that_the_receiver_does_not_expect_is_refused_at_both_ends():
    assert forked.run(sent_as_another_shape) == [
        "Mismatch: rank 0 called send(float32[4], dst=1), and rank 1 has float32[8] at the other end.",
        "Mismatch: rank 1 called recv(float32[8], src=0), and rank 0 has float32[4] at the other end.",
    ]


def from_anybody(rank):
    dist.recv(mine(rank))


def on_the_cpu(rank):
    dist.all_reduce(torch.ones(2))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (from_anybody, "simccl has no receive from any rank: who comes first is chance"),
        (on_the_cpu, "No backend type associated with device type cpu"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_there_is_not_is_refused_in_a_line(fault, says):
    for told in forked.run(fault):
        assert says in told
