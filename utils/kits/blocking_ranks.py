"""torch.distributed without processes: each rank is a thread of this one, and one works at a time.

    def main(rank):
        dist.all_reduce(x)    # and dist.send, dist.batch_isend_irecv, functional collectives: all of them as they are
        ...

    results = on_blocking_ranks(main, ranks=4)

A rank works until it has to wait; then the next one that can goes on. So a run is the same every time, costs no start
of a process, and it is known at once when no rank can go on. The rules are the strict ones that NCCL and large
messages have: a send ends when the other rank receives, a tensor that is being sent may not change, and one that is
being received has its numbers after `wait()`.
"""

# PyTorch calls a group's methods by position, and by other names in other versions.
# pyright: reportIncompatibleMethodOverride=false, reportAssignmentType=false, reportAttributeAccessIssue=false
# pyright: reportPrivateImportUsage=false

from __future__ import annotations

import _thread
import threading
from collections import defaultdict, deque
from collections.abc import Callable
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d
from torch.multiprocessing.reductions import StorageWeakRef

from simgpu import torch_private
from utils.exercises.ledger import adding_to

BACKEND = "on_blocking_ranks"


class NoneGoesOn(RuntimeError):
    """No rank can go on."""


class InUse(RuntimeError):
    """A tensor has been used while it was being sent or received."""


class SentCall(NamedTuple):
    """What a rank has given to a call: the rank, the call, bytes of its input, ranks of the group, and to whom."""

    rank: int
    call: str
    bytes: int
    ranks: int
    to: int | None = None


def on_blocking_ranks(main: Callable, ranks: int, *, sent: list[SentCall] | None = None) -> list:
    """What `main(rank)` returns on each of so many ranks; each has a default process group with all of them.

    What a rank raises is raised here, and ends the others. Each call of a rank is noted in `sent`.
    """
    asked, answers = ([SimpleQueue() for _ in range(ranks)] for _ in range(2))
    results: list = [None] * ranks
    post = _Post(ranks, adding_to([] if sent is None else sent), asked, answers)
    waits: dict[int, tuple[Callable[[], bool], str]] = {}
    ended: set[int] = set()
    failure: BaseException | None = None

    def can_go_on(rank: int) -> bool:
        return rank not in ended and (failure is not None or rank not in waits or waits[rank][0]())

    before, distributed_c10d._world = distributed_c10d._world, _Worlds()
    torch_private.let_threads_name_groups(True)
    try:
        for rank in range(ranks):
            _thread.start_new_thread(_work, (main, rank, post, torch.is_grad_enabled()))
        rank = 0
        while True:
            answers[rank].put(failure is None)
            call, thing, words = asked[rank].get()
            if call == "wait":
                waits[rank] = thing, words
            else:
                ended.add(rank)
                if call == "return":
                    results[rank] = thing
                else:
                    failure = failure or thing
            if len(ended) == ranks:
                break
            order = [(rank + n) % ranks for n in range(ranks)]
            if not any(map(can_go_on, order)):
                failure = NoneGoesOn(f"no rank can go on: {_told(waits, ended)}")
            rank = next(filter(can_go_on, order))
            waits.pop(rank, None)
    finally:
        torch_private.let_threads_name_groups(False)
        distributed_c10d._world = before
    if failure is not None:
        raise failure
    return results


def made_by(function: Callable) -> tuple[Any, int, int]:
    """What `function()` returns, the bytes of new tensors that are left, and the most that there were at a time.

    Tensors that this rank had before do not count. Those that autograd keeps do.
    """
    with _Living() as living:
        found = function()
        return found, living.now(), living.peak


class _Living(torch_private.DispatchMode):
    """Counts the bytes of the tensors that operators make."""

    def __init__(self):
        super().__init__()
        self.peak = 0
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}
        self._others: dict[int, StorageWeakRef] = {}  # those that were there before

    def now(self) -> int:
        self._made = {key: one for key, one in self._made.items() if not one[0].expired()}
        self._others = {key: one for key, one in self._others.items() if not one.expired()}
        return sum(size for _, size in self._made.values())

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.now()
        for storage in _storages((args, kwargs)):
            if storage._cdata not in self._made:
                self._others[storage._cdata] = StorageWeakRef(storage)
        found = func(*args, **(kwargs or {}))
        for storage in _storages(found):
            if storage._cdata not in self._others:
                self._made[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
        self.peak = max(self.peak, self.now())
        return found


def _storages(values) -> list[torch.UntypedStorage]:
    if isinstance(values, torch.Tensor):
        return [values.untyped_storage()]
    if isinstance(values, dict):
        values = list(values.values())
    return [one for each in values for one in _storages(each)] if isinstance(values, (list, tuple)) else []


class _Stopped(BaseException):
    """Ends a rank where another one has failed."""


class _Post:
    """What ranks have sent, and those calls that they have all to make."""

    def __init__(self, ranks: int, note: Callable, asked: list[SimpleQueue], answers: list[SimpleQueue]):
        self.ranks, self.note, self.store = ranks, note, dist.HashStore()
        self._asked, self._answers = asked, answers
        self.sends: dict[tuple, deque[_Send]] = defaultdict(deque)
        self.receives: dict[tuple, deque[_Receive]] = defaultdict(deque)
        self.active: dict[int, list[_Send | _Receive]] = defaultdict(list)  # by rank: those not waited for
        self.together: dict[tuple, _Together] = {}
        self.works: list = []  # kept: C++ knows them, too

    def wait(self, rank: int, ready: Callable[[], bool], words: object) -> None:
        """Return when `ready()`, while the other ranks work."""
        if not ready():
            self._asked[rank].put(("wait", ready, words))
            self.go_on(rank)

    def go_on(self, rank: int) -> None:
        if not self._answers[rank].get():
            raise _Stopped

    def end(self, rank: int, call: str, thing: object) -> None:
        self._asked[rank].put((call, thing, ""))

    def begin(self, rank: int, work: _Send | _Receive) -> None:
        for other in self.active[rank]:
            if isinstance(work, _Send) and isinstance(other, _Send):
                continue
            if _overlap(work.tensor, other.tensor):
                word = (
                    "receives into a tensor that it is sending"
                    if isinstance(other, _Send)
                    else (f"{'sends' if isinstance(work, _Send) else 'receives into'} a tensor that it is receiving")
                )
                raise InUse(f"rank {rank} {word}, and has not waited for that.")
        self.active[rank].append(work)

    def finish(self, rank: int) -> None:
        """At the end of a rank: what it has sent is as it was."""
        for work in self.active[rank]:
            if isinstance(work, _Send):
                work.need_unchanged()


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    (a0, a1), (b0, b1) = _range(a), _range(b)
    return a0 < b1 and b0 < a1


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.data_ptr(), tensor.data_ptr() + tensor.numel() * tensor.element_size()


NOTHING = torch.empty(0)


class _Send(dist.Work):
    def __init__(self, post: _Post, rank: int, other: int, key: tuple, tensor: torch.Tensor):
        super().__init__()
        self.post, self.rank, self.other, self.tensor = post, rank, other, tensor
        with torch_private.unseen_by_modes():
            self.as_it_was = tensor.clone()
        self.key = key
        self.received = False

    def need_unchanged(self) -> None:
        with torch_private.unseen_by_modes():
            same = _same_bytes(self.as_it_was, self.tensor)
        if not same:
            raise InUse(f"rank {self.rank} has changed a tensor while it was being sent to rank {self.other}.")

    def need_unchanged_if_active(self) -> None:
        if self in self.post.active[self.rank]:
            self.need_unchanged()

    def is_completed(self) -> bool:
        return self.received

    def wait(self, timeout=None) -> bool:
        self.post.wait(self.rank, lambda: self.received, f"until rank {self.other} receives")
        if self in self.post.active[self.rank]:
            self.need_unchanged()
            self.post.active[self.rank].remove(self)
            self.tensor = NOTHING  # others may free it
        return True


class _Receive(dist.Work):
    def __init__(self, post: _Post, rank: int, other: int, key: tuple, tensor: torch.Tensor):
        super().__init__()
        self.post, self.rank, self.other, self.tensor = post, rank, other, tensor
        self.key = key
        self.send: _Send | None = None

    def is_completed(self) -> bool:
        return self.send is not None

    def _source_rank(self) -> int:
        return self.other

    def wait(self, timeout=None) -> bool:
        self.post.wait(self.rank, lambda: self.send is not None, f"for a message from rank {self.other}")
        if self in self.post.active[self.rank]:
            assert self.send is not None
            self.send.need_unchanged_if_active()
            self.post.active[self.rank].remove(self)
            with torch.no_grad(), torch_private.unseen_by_modes():
                self.tensor.copy_(self.send.as_it_was)
            self.tensor = NOTHING
        return True


def _spoil(tensor: torch.Tensor) -> None:
    """What has not arrived yet should be read as nothing that a rank sends."""
    tensor.fill_(float("nan") if tensor.is_floating_point() else 0)


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8)) if a.dim() else torch.equal(a, b)


class _Together(dist.Work):
    """A call that all ranks of a group make: `compute` is done when the last has made it."""

    def __init__(self, post: _Post, call: str, ranks: tuple[int, ...]):
        super().__init__()
        self.post, self.call, self.ranks = post, call, ranks
        self.given: dict[int, tuple] = {}
        self.done = False


class _Part(dist.Work):
    """One rank's part of such a call. Its output has its numbers when it has waited."""

    def __init__(self, whole: _Together, rank: int, fill: Callable[[], None]):
        super().__init__()
        self.whole, self.rank = whole, rank
        self._fill: Callable[[], None] | None = fill

    def is_completed(self) -> bool:
        return self.whole.done

    def wait(self, timeout=None) -> bool:
        whole = self.whole
        missing = lambda: [rank for rank in whole.ranks if rank not in whole.given]  # noqa: E731
        whole.post.wait(self.rank, lambda: whole.done, _LazyWords(whole.call, missing))
        if self._fill is not None:
            with torch.no_grad(), torch_private.unseen_by_modes():
                self._fill()
            self._fill = None  # others may free what it fills
        return True


class _LazyWords:
    def __init__(self, call: str, missing: Callable[[], list[int]]):
        self.call, self.missing = call, missing

    def __str__(self) -> str:
        return f"in {self.call} for rank {', '.join(map(str, self.missing()))}"


REDUCE = {"SUM": torch.sum, "AVG": torch.mean, "PRODUCT": torch.prod, "MAX": torch.amax, "MIN": torch.amin}


def _reduced(tensors: list[torch.Tensor], op) -> torch.Tensor:
    name = str(op).rpartition(".")[2]
    if name not in REDUCE:
        name = next((each for each in REDUCE if op == getattr(dist.ReduceOp, each)), name)
    if name not in REDUCE:
        raise ValueError(f"ranks in turns cannot reduce by {name}")
    return REDUCE[name](torch.stack(tensors), dim=0)


class RanksInTurns(dist.ProcessGroup):
    """The process group of one rank."""

    def __init__(self, post: _Post, rank: int, members: tuple[int, ...], name: str):
        super().__init__(members.index(rank), len(members))
        self._post, self._me, self._members, self._name = post, rank, members, name
        self._calls = 0

    def getBackendName(self) -> str:
        return BACKEND

    def size(self) -> int:
        return len(self._members)

    def _get_backend(self, device):  # asked whether it can do several calls as one: it cannot
        return self

    @property
    def group_name(self) -> str:
        return distributed_c10d._world.pg_names[self]

    pg_name = group_name

    # --- between two ranks ---

    def send(self, tensors, dst, tag=0):
        [tensor] = _contiguous(tensors)
        other = self._members[dst]
        key = (self._name, self._me, other, tag)
        work = _Send(self._post, self._me, other, key, tensor.detach())
        self._post.begin(self._me, work)
        self._post.note(SentCall(self._me, "send", tensor.numel() * tensor.element_size(), self.size(), other))
        return self._match(self._post.sends, work)

    def recv(self, tensors, src, tag=0):
        [tensor] = _contiguous(tensors)
        other = self._members[src]
        work = _Receive(self._post, self._me, other, (self._name, other, self._me, tag), tensor.detach())
        self._post.begin(self._me, work)
        with torch_private.unseen_by_modes():
            _spoil(work.tensor)
        return self._match(self._post.receives, work)

    def _match(self, queue, work):
        post = self._post
        post.works.append(work)
        queue[work.key].append(work)
        sends, receives = post.sends[work.key], post.receives[work.key]
        while sends and receives:
            send, receive = sends.popleft(), receives.popleft()
            if (send.tensor.numel(), send.tensor.dtype) != (receive.tensor.numel(), receive.tensor.dtype):
                raise ValueError(
                    f"rank {send.rank} sends {_kind(send.tensor)}, and rank {receive.rank} receives it into "
                    f"{_kind(receive.tensor)}"
                )
            send.need_unchanged()
            send.as_it_was = send.as_it_was.view(receive.tensor.shape)
            send.tensor = send.tensor.view(receive.tensor.shape)
            send.received, receive.send = True, send
        return work

    # --- among all ranks ---

    def _all(self, call: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor], compute: Callable):
        """`compute(given)`: from each rank's inputs, in order, the tensors that this rank's outputs get."""
        _contiguous(inputs)
        number, self._calls = self._calls, self._calls + 1
        whole = self._post.together.setdefault((self._name, number), _Together(self._post, call, self._members))
        if whole.call != call:
            raise ValueError(f"rank {self._me} calls {call}, and another rank calls {whole.call} at the same place")
        with torch_private.unseen_by_modes():
            whole.given[self._me] = tuple(one.detach().clone() for one in inputs)
        shapes = [one.shape for one in inputs]
        for rank, given in whole.given.items():
            if call not in ("broadcast", "scatter", "gather", "all_to_all") and [one.shape for one in given] != shapes:
                raise ValueError(
                    f"in {call}, rank {rank} gives {_kind(given[0])} and rank {self._me} {_kind(inputs[0])}"
                )
        size = sum(one.numel() * one.element_size() for one in inputs)
        self._post.note(SentCall(self._me, call, size, self.size()))
        whole.done = len(whole.given) == self.size()

        def fill():
            found = compute([whole.given[rank] for rank in self._members])
            for output, one in zip(outputs, found, strict=True):
                output.detach().copy_(one.view(output.shape))

        part = _Part(whole, self._me, fill)
        self._post.works.append(part)
        return part

    def allreduce(self, tensors, opts=None):
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp

        def compute(given):
            return [_reduced([each[n] for each in given], op) for n in range(len(tensors))]

        return self._all("all_reduce", tensors, tensors, compute)

    allreduce_coalesced = allreduce

    def barrier(self, opts=None):
        return self._all("barrier", [], [], lambda given: [])

    def allgather(self, outputs, inputs, opts=None):
        return self._all("all_gather", inputs, outputs[0], lambda given: [each[0] for each in given])

    def all_gather_single(self, output, given, opts=None):
        return self._all("all_gather", [given], [output], lambda all_: [torch.cat([one[0].flatten() for one in all_])])

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        works = [self.all_gather_single(*each) for each in zip(outputs, inputs, strict=True)]
        for work in works[:-1]:
            work.wait()
        return works[-1]

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def reduce_scatter(self, outputs, inputs, opts=None):
        op, place = dist.ReduceOp.SUM if opts is None else opts.reduceOp, self._members.index(self._me)

        def compute(given):
            return [_reduced([each[place] for each in given], op)]

        return self._all("reduce_scatter", inputs[0], outputs, compute)

    def reduce_scatter_single(self, output, given, opts=None):
        return self.reduce_scatter([output], [list(given.view(self.size(), -1))], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        works = [self.reduce_scatter_single(*each, opts) for each in zip(outputs, inputs, strict=True)]
        for work in works[:-1]:
            work.wait()
        return works[-1]

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs, inputs, opts=None):
        place = self._members.index(self._me)
        return self._all("all_to_all", inputs, outputs, lambda given: [each[place] for each in given])

    def all_to_all_single(self, output, given, output_sizes=None, input_sizes=None, opts=None):
        whole = [given.shape[0] // self.size()] * self.size()
        inputs = list(given.split(list(input_sizes) if input_sizes else whole))
        whole = [output.shape[0] // self.size()] * self.size()
        return self.alltoall(list(output.split(list(output_sizes) if output_sizes else whole)), inputs)

    alltoall_base = all_to_all_single

    def broadcast(self, tensors, opts):
        return self._all("broadcast", tensors, tensors, lambda given: list(given[opts.rootRank]))

    def gather(self, outputs, inputs, opts):
        mine = outputs[0] if self._members.index(self._me) == opts.rootRank else []
        return self._all("gather", inputs, mine, lambda given: [each[0] for each in given][: len(mine)])

    def scatter(self, outputs, inputs, opts):
        place = self._members.index(self._me)
        mine = inputs[0] if place == opts.rootRank else []
        return self._all("scatter", mine, outputs, lambda given: [given[opts.rootRank][place]])

    def reduce(self, tensors, opts):
        op, at_root = opts.reduceOp, self._members.index(self._me) == opts.rootRank

        def compute(given):
            return [_reduced([each[0] for each in given], op)] if at_root else []

        return self._all("reduce", tensors, tensors if at_root else [], compute)


def _contiguous(tensors) -> list[torch.Tensor]:
    for tensor in tensors:
        if not tensor.is_contiguous():
            raise ValueError("Tensors must be contiguous: call .contiguous() before you send")
    return tensors


def _kind(tensor: torch.Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"


def _told(waits: dict[int, tuple[Any, Any]], ended: set[int]) -> str:
    words = [f"rank {rank} waits {words}" for rank, (_, words) in sorted(waits.items())]
    return "; ".join([*words, *(f"rank {rank} has ended" for rank in sorted(ended))])


class _Worlds:
    """What torch.distributed keeps of its groups, for each thread its own."""

    def __init__(self):
        object.__setattr__(self, "_own", threading.local())

    def _world(self):
        if not hasattr(self._own, "world"):
            self._own.world = _fresh_world()
        return self._own.world

    def __getattr__(self, name):
        return getattr(self._world(), name)

    def __setattr__(self, name, value):
        setattr(self._world(), name, value)


def _fresh_world() -> SimpleNamespace:
    maps = ("pg_map", "pg_names", "pg_group_ranks", "pg_backend_config", "tags_to_pg", "pg_to_tag")
    more = ("pg_coalesce_state", "pg_flight_recorder_hooks")
    return SimpleNamespace(default_pg=None, group_count=0, comms=[], **{name: {} for name in (*maps, *more)})


_here = threading.local()  # the post and the rank of a thread


def _new_group(store, rank: int, size: int, timeout) -> RanksInTurns:
    """What torch.distributed calls for a group of this backend: for the default one, and for dist.new_group."""
    members = tuple(range(_here.post.ranks))
    name = "all"
    if size != _here.post.ranks:
        # Which ranks these are: each says so in the group's store.
        store.set(str(rank), str(_here.rank))
        _here.post.wait(_here.rank, lambda: all(store.check([str(n)]) for n in range(size)), "for a new group")
        members = tuple(int(store.get(str(n))) for n in range(size))
        name = f"group of {members}"
    _here.groups = getattr(_here, "groups", 0) + 1
    return RanksInTurns(_here.post, _here.rank, members, f"{name}, {_here.groups if name == 'all' else ''}")


torch_private.keep_off_the_flight_recorder(BACKEND)
dist.Backend.register_backend(BACKEND, _new_group, devices=["cpu"])


def _work(main: Callable, rank: int, post: _Post, grad: bool) -> None:
    """What a rank's thread does."""
    call, thing = "return", None
    try:
        post.go_on(rank)
        with torch.set_grad_enabled(grad), torch.autograd.set_multithreading_enabled(False):
            _begin_group(post, rank)
            thing = main(rank)
            post.finish(rank)
    except _Stopped:
        pass
    except BaseException as error:
        call, thing = "raise", error
    post.end(rank, call, thing)


def _begin_group(post: _Post, rank: int) -> None:
    torch_private.let_threads_name_groups(True)
    _here.post, _here.rank = post, rank
    name = distributed_c10d._process_group_name([], use_hashed_name=False)
    group, _ = distributed_c10d._new_process_group_helper(
        post.ranks, rank, [], dist.Backend(BACKEND), post.store, name, timeout=dist.default_pg_timeout
    )
    assert isinstance(group, RanksInTurns)
    distributed_c10d._update_default_pg(group)
    distributed_c10d._world.pg_group_ranks[group] = {n: n for n in range(post.ranks)}
