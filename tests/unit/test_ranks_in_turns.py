"""Ranks that are threads, connected by torch.distributed: collectives do what they say, a deadlock is said at once."""

import contextlib
import signal
import subprocess
import sys
import threading
import time
import traceback
import weakref

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

import simgpu
from simgpu import distributed
from utils.kits import ranks_in_turns
from utils.kits.ranks_in_turns import ON_A_GPU, Called, InUse, Sent, Stuck, in_turns

RANKS = 4


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32)


def all_reduced(rank):
    x = numbers(1.0, rank)
    dist.all_reduce(x)
    return x.tolist()


def maximum(rank):
    x = numbers(rank)
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x.item()


def mean_later(rank):
    x = numbers(rank)
    work = dist.all_reduce(x, op=dist.ReduceOp.AVG, async_op=True)
    work.wait()
    return x.item()


def gathered(rank):
    found = [torch.empty(2) for _ in range(RANKS)]
    dist.all_gather(found, numbers(rank, -rank))
    flat = torch.empty(2 * RANKS)
    dist.all_gather_into_tensor(flat, numbers(rank, -rank))
    assert torch.cat(found).equal(flat)
    return flat[2:4].tolist()


def scattered(rank):
    own, again = torch.empty(2), torch.empty(2)
    dist.reduce_scatter_tensor(own, torch.arange(8.0) + rank)
    dist.reduce_scatter(again, list((torch.arange(8.0) + rank).split(2)))
    assert own.equal(again)
    return own.tolist()


def uneven(rank):
    """Rank r sends s + 1 rows to rank s."""
    got = torch.empty(RANKS * (rank + 1))
    dist.all_to_all_single(got, numbers(*[rank] * 10), [rank + 1] * RANKS, [1, 2, 3, 4])
    return got.tolist()


def lists(rank):
    got = [torch.empty(rank) for _ in range(RANKS)]
    dist.all_to_all(got, [numbers(*[rank] * other) for other in range(RANKS)])
    return torch.cat(got).tolist()


def rooted(rank):
    x = numbers(rank)
    dist.broadcast(x, src=2)
    dist.reduce(x, dst=1)
    found = [torch.empty(1) for _ in range(RANKS)] if rank == 3 else None
    dist.gather(x, found, dst=3)
    own = torch.empty(1)
    dist.scatter(own, [each + 1 for each in found] if found else None, src=3)
    return own.item()


def neighbors(rank):
    got = torch.empty(1)
    left, right = (rank - 1) % RANKS, (rank + 1) % RANKS
    operations = [dist.P2POp(dist.irecv, got, left), dist.P2POp(dist.isend, numbers(rank), right)]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    return got.item()


def objects(rank):
    found = [None] * RANKS
    dist.all_gather_object(found, {"rank": rank})
    return [one["rank"] for one in found]


def groups(rank):
    pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("node", "place"))
    x, y, z = numbers(rank), numbers(rank), numbers(rank)
    dist.all_reduce(x, group=pairs[rank // 2])
    dist.all_reduce(y, group=mesh.get_group("node"))
    dist.all_reduce(z, group=dist.new_group([0, 1] if rank < 2 else [2, 3], use_local_synchronization=True))
    return x.item(), y.item(), z.item()


@pytest.mark.parametrize(
    ("main", "right"),
    [
        (all_reduced, [[4.0, 6.0]] * 4),
        (maximum, [3.0] * 4),
        (mean_later, [1.5] * 4),
        (gathered, [[1.0, -1.0]] * 4),
        (scattered, [[6.0, 10.0], [14.0, 18.0], [22.0, 26.0], [30.0, 34.0]]),
        (uneven, [[float(source) for source in range(4) for _ in range(rank + 1)] for rank in range(4)]),
        (lists, [[float(source) for source in range(4) for _ in range(rank)] for rank in range(4)]),
        (rooted, [3.0, 9.0, 3.0, 3.0]),
        (neighbors, [3.0, 0.0, 1.0, 2.0]),
        (objects, [[0, 1, 2, 3]] * 4),
        (groups, [(1.0, 2.0, 1.0), (1.0, 4.0, 1.0), (5.0, 2.0, 5.0), (5.0, 4.0, 5.0)]),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_collective_does_what_it_says_and_nothing_is_left(main, right):
    threads, hook = set(threading.enumerate()), sys.excepthook
    assert in_turns(main, RANKS) == right
    assert not dist.is_initialized()
    assert set(threading.enumerate()) <= threads
    assert sys.excepthook is hook


def test_gradients_go_back_through_an_all_to_all():
    def main(rank):
        x = torch.ones(3, requires_grad=True)
        got = functional.all_to_all_single_autograd(x, [1 + rank] * 2, [1, 2], dist.group.WORLD)
        (got * (rank + 1)).sum().backward()
        return x.grad.tolist()

    assert in_turns(main, 2) == [[1.0, 2.0, 2.0]] * 2


def test_a_result_is_there_when_it_was_waited_for_and_not_before():
    def main(rank):
        x = numbers(rank)
        work = dist.all_reduce(x, async_op=True)
        before = x.item()
        work.wait()
        return before, x.item()

    assert in_turns(main, 2) == [(0.0, 1.0), (1.0, 1.0)]


def test_what_passes_is_noted():
    def main(rank):
        got = torch.empty(1 + rank, 2)
        send = [0, 1] if rank == 0 else [1, 1]
        dist.all_to_all_single(got, torch.zeros(sum(send), 2), [0, 1] if rank == 0 else [1, 1], send)
        dist.all_reduce(torch.ones(5, dtype=torch.long))
        if rank == 0:
            dist.send(torch.ones(3), 1)
        else:
            dist.recv(torch.empty(3), 0)

    sent = []
    in_turns(main, 2, sent=sent)
    assert sent == [
        Sent("all_to_all", 1, 0, 8, False),
        Sent("all_to_all", 0, 1, 8, False),
        Sent("all_reduce", 0, 1, 40.0, True),
        Sent("all_reduce", 1, 0, 40.0, True),
        Sent("send", 0, 1, 12, False),
    ]


def one_does_not_come(rank):
    if rank != 1:
        dist.all_reduce(numbers(1.0))


def both_receive(rank):
    dist.recv(torch.empty(1), 1 - rank)


def different_calls(rank):
    x = numbers(1.0)
    dist.all_reduce(x) if rank else dist.broadcast(x, src=0)


def different_splits(rank):
    dist.all_to_all_single(torch.empty(2), torch.ones(2), [1, 1], [2, 0])


def different_sizes(rank):
    dist.all_reduce(torch.ones(rank + 1))


def own_group_only(rank):
    dist.all_reduce(numbers(1.0), group=dist.new_group([rank]))


def fails(rank):
    if rank == 1:
        raise KeyError("lost")
    dist.barrier()


@pytest.mark.parametrize(
    ("main", "ranks", "error", "words"),
    [
        (one_does_not_come, 3, Stuck, "in all_reduce, rank 0 and 2 wait for rank 1, which has ended"),
        (both_receive, 2, Stuck, "rank 0 waits for a message from rank 1; rank 1 waits for a message from rank 0"),
        (different_calls, 2, RuntimeError, "rank 0 calls broadcast and rank 1 calls all_reduce"),
        (different_splits, 2, ValueError, r"rank 0 sends \[2\] to rank 0, which expects \[1\]"),
        (different_sizes, 2, ValueError, r"rank 0 gives \[1\] and rank 1 gives \[2\]"),
        (own_group_only, 2, ValueError, r"rank 1 makes the group \[1\] where another one makes \[0\]"),
        (fails, 2, KeyError, "lost"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_end_is_said(main, ranks, error, words):
    threads = set(threading.enumerate())
    with pytest.raises(error, match=words):
        in_turns(main, ranks)
    assert set(threading.enumerate()) <= threads
    assert in_turns(all_reduced, 2) == [[2.0, 1.0]] * 2, "the next run is not disturbed"


# --- strict=True: the rules of NCCL and of large messages ---


def passed_around(rank):
    """To the next rank by a batch, and back by sends of which one comes first."""
    got, back = torch.empty(2), torch.empty(2)
    left, right = (rank - 1) % RANKS, (rank + 1) % RANKS
    operations = [dist.P2POp(dist.isend, numbers(rank, rank), right), dist.P2POp(dist.irecv, got, left)]
    works = dist.batch_isend_irecv(operations)
    early = got.isnan().all().item()
    for work in works:
        work.wait()
    if rank % 2:
        dist.send(got, left)
        dist.recv(back, right)
    else:
        dist.recv(back, right)
        dist.send(got, left)
    return early, got.tolist(), back.tolist()


def test_strict_messages_arrive_and_a_buffer_has_nothing_before_its_wait():
    assert in_turns(passed_around, RANKS, strict=True) == [
        (True, [(rank - 1.0) % RANKS] * 2, [float(rank)] * 2) for rank in range(RANKS)
    ]


def test_calls_are_noted_with_what_a_rank_gives():
    def main(rank):
        dist.all_reduce(torch.ones(5))
        if rank == 0:
            dist.send(torch.ones(3), 1)
        else:
            dist.recv(torch.empty(3), 0)

    called = []
    in_turns(main, 2, called=called, strict=True)
    assert called == [
        Called(0, "all_reduce", 20, 2),
        Called(1, "all_reduce", 20, 2),
        Called(0, "send", 12, 2, 1),
    ]


def test_what_was_sent_and_waited_for_is_not_kept():
    def main(rank):
        got = torch.empty(100)
        with_tensor = torch.ones(100)
        kept = weakref.ref(with_tensor), weakref.ref(got)
        works = [dist.isend(with_tensor, 1 - rank), dist.irecv(got, 1 - rank)]
        for work in works:
            work.wait()
        dist.barrier()
        del got, with_tensor
        return [one() is None for one in kept]

    assert in_turns(main, 2, strict=True) == [[True, True]] * 2


def all_send_first(rank):
    dist.send(numbers(rank), 1 - rank)
    dist.recv(torch.empty(1), 1 - rank)


def only_one_receives(rank):
    if rank:
        dist.recv(torch.empty(1), 0)


def receives_into_what_it_sends(rank):
    x = numbers(rank)
    dist.isend(x, 1 - rank)
    dist.irecv(x, 1 - rank)


def sends_what_it_receives(rank):
    x = torch.empty(4)
    dist.irecv(x[:3], 1 - rank)
    dist.isend(x[2:], 1 - rank)


def changes_before_it_waits(rank):
    x, got = numbers(rank), torch.empty(1)
    work, other = dist.isend(x, 1 - rank), dist.irecv(got, 1 - rank)
    x += 1
    work.wait()
    other.wait()


def changes_and_never_waits(rank):
    x = numbers(rank)
    if rank:
        dist.recv(torch.empty(1), 0)
    else:
        dist.isend(x, 1)
        x += 1


def goes_on_after_a_mistake(rank):
    with contextlib.suppress(InUse):
        changes_before_it_waits(rank)


def transposed(rank):
    x = torch.ones(2, 3).T
    dist.recv(torch.empty(3, 2), 0) if rank else dist.send(x, 1)


def transposed_to_all(rank):
    dist.all_reduce(torch.ones(2, 3).T)


def other_dtype(rank):
    dist.recv(torch.empty(2, 3, dtype=torch.float64), 0) if rank else dist.send(torch.ones(2, 3), 1)


@pytest.mark.parametrize(
    ("main", "error", "words"),
    [
        (all_send_first, Stuck, "rank 0 waits until rank 1 receives; rank 1 waits until rank 0 receives"),
        (only_one_receives, Stuck, "rank 1 waits for a message from rank 0, which has ended"),
        (receives_into_what_it_sends, InUse, "rank 0 receives into a tensor that it is sending"),
        (sends_what_it_receives, InUse, "rank 0 sends a tensor that it is receiving"),
        (changes_before_it_waits, InUse, "rank 0 has changed a tensor while it was being sent to rank 1"),
        (changes_and_never_waits, InUse, "rank 0 has changed a tensor while it was being sent to rank 1"),
        (goes_on_after_a_mistake, InUse, "rank 0 has changed a tensor"),
        (transposed, ValueError, "must be contiguous"),
        (transposed_to_all, ValueError, "must be contiguous"),
        (other_dtype, ValueError, "rank 0 sends 2 x 3 of float32, and rank 1 receives it into 2 x 3 of float64"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_strict_messages_forbid_is_said(main, error, words):
    with pytest.raises(error, match=words):
        in_turns(main, 2, strict=True)
    assert in_turns(all_reduced, 2, strict=True) == [[2.0, 1.0]] * 2, "the next run is not disturbed"


@pytest.mark.parametrize("main", [all_send_first, changes_before_it_waits])
def test_messages_that_are_not_strict_may_go_first(main):
    in_turns(main, 2)


def test_a_mistake_is_raised_at_its_line_and_shows_nothing_of_the_others():
    def main(rank):
        try:
            receives_into_what_it_sends(rank)
        except InUse as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            seen.append(names)
            raise

    seen = []
    with pytest.raises(InUse):
        in_turns(main, 2, strict=True)
    [names] = seen
    assert names[:2] == ["main", "receives_into_what_it_sends"]
    assert names[-1] == "ask", "the frame of in_turns is not in the rank's traceback"


def ends(rank):
    return rank


def fails(rank):
    dist.barrier()
    if rank == 1:
        raise ValueError("rank 1 fails")
    dist.barrier()


def waits_for_none(rank):
    if rank:
        dist.recv(numbers(0), 0)


@pytest.fixture
def interrupted_by_a_signal():
    """As at a terminal: a process that was started in the background ignores this signal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt():
    time.sleep(0.5)  # until it waits for this rank: a signal just before that is seen when the rank ends
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def is_interrupted(rank):
    """In the thread that waits for the ranks, rank 1 never having begun."""
    interrupt()
    time.sleep(0.2)


class Ends:
    """What a thread keeps for itself, and takes some time to let go."""

    def __init__(self, gone):
        self.gone = gone

    def __del__(self):
        time.sleep(0.1)
        self.gone.append(True)


@pytest.mark.parametrize(
    ("main", "error"), [(ends, None), (fails, ValueError), (waits_for_none, Stuck), (is_interrupted, KeyboardInterrupt)]
)
def test_no_thread_is_left(main, error, interrupted_by_a_signal):
    """A script that ended right after such a run aborted in 3 of 24 cases: Python ended before its threads."""
    own, begun, gone = threading.local(), [], []

    def keeps_something(rank):
        begun.append(rank)
        own.kept = Ends(gone)
        return main(rank)

    with pytest.raises(error) if error else contextlib.nullcontext():
        in_turns(keeps_something, RANKS)
    assert len(gone) == len(begun) > 0


def test_a_rank_that_does_not_end_is_waited_for_only_so_long(monkeypatch, interrupted_by_a_signal):
    monkeypatch.setattr(ranks_in_turns, "JOIN", 0.2)
    free = threading.Event()

    def keeps_on(rank):
        interrupt()
        free.wait(30)

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        in_turns(keeps_on, 2)
    free.set()
    assert time.monotonic() - began < 20


def test_ranks_share_a_simulated_gpu():
    if not simgpu.is_enabled():
        simgpu.enable(1)

    def main(rank):
        x = torch.full((2,), rank + 1.0, device="simgpu")
        with torch.get_device_module("simgpu").stream(torch.Stream("simgpu")):
            dist.all_reduce(x)
        return x.tolist()

    assert in_turns(main, 3, backend=ON_A_GPU) == [[6.0, 6.0]] * 3


def test_processes_with_simulated_gpus_keep_their_own_backend():
    """A class's warm process has loaded the labs' kits before a student's ranks make a group."""
    code = """
import utils.kits.ranks_in_turns, simgpu, torch
simgpu.enable(count=2)
print(torch.distributed.Backend.default_device_backend_map["simgpu"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == [distributed.NAME], done.stderr
