"""Ranks without processes: each is a thread, one works at a time, and torch.distributed connects them.

    def main(rank):
        ...                   # torch.distributed as on any rank: collectives, sends, new groups; tensors on the CPU

    results = in_turns(main, ranks=4)

A rank works until it has to wait; then the next one that can goes on. So a run is the same every time, takes
milliseconds, and it is known at once when none can go on: `Stuck` says who waits for what. A collective is done when
all ranks of its group have called it. What passes between ranks is noted (`Sent`): bytes of an all-to-all, a send, a
scatter or a gather go to the rank that they are for, and those of the others around a ring, in the order of the group.

`strict=True` has the rules of NCCL and of large messages: a send ends when the other rank receives, a tensor that is
being sent may not change, one that is being received has no values before `wait()`, and tensors are contiguous.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable
from functools import reduce
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.distributed.nn.functional  # before there are groups: its functions keep the default group of that moment
from torch.distributed import HashStore  # pyright: ignore[reportPrivateImportUsage]  # it is documented there

from simgpu.threads import JOIN, Ask, Stopped, start_rank
from simgpu.torch_private import Work, each_thread_has_its_groups, keep_off_the_flight_recorder, new_world, swap_world
from utils.exercises.ledger import adding_to

BACKEND = "in_turns"
ON_A_GPU = "in_turns_on_a_gpu"
GPUS = "simgpu"  # the type of their devices
PROCESS_GROUP: Any = dist.ProcessGroup  # what its methods are given depends on PyTorch's version
REDUCE = {
    "SUM": lambda these: reduce(torch.add, these),
    "AVG": lambda these: reduce(torch.add, these) / len(these),
    "MAX": lambda these: reduce(torch.maximum, these),
    "MIN": lambda these: reduce(torch.minimum, these),
    "PRODUCT": lambda these: reduce(torch.mul, these),
}


class Stuck(RuntimeError):
    """No rank can go on."""


class Sent(NamedTuple):
    """Bytes that one rank has passed to another, the operation that did it, and whether these are whole numbers."""

    by: str
    source: int
    to: int
    bytes: float
    counts: bool


class InUse(RuntimeError):
    """A tensor has been used while it was being sent or received."""


class Called(NamedTuple):
    """What a rank has given to a call: the rank, the call, bytes of its input, ranks of the group, and to whom."""

    rank: int
    call: str
    bytes: int
    ranks: int
    to: int | None = None


class _Call(NamedTuple):
    """What a rank gives to a collective: tensors that it sends, tensors that are written, and what it says besides."""

    kind: str
    inputs: list[torch.Tensor]
    outputs: list[torch.Tensor]
    more: Any


def in_turns(
    main: Callable,
    ranks: int,
    *,
    sent: list[Sent] | None = None,
    called: list[Called] | None = None,
    strict=False,
    backend: str = BACKEND,
) -> list:
    """What `main(rank)` returns on each of so many ranks. What a rank raises is raised here, and ends the others.

    What passes is noted in `sent`, and each rank's call in `called`, with what the rank gives to it. With the backend
    ON_A_GPU, tensors are those of a simulated GPU that all ranks share: numbers are right, times and bytes are not.
    """
    # All that decides is in this frame. A rank holds two queues: one to ask through, one to be answered through.
    asked, answers = ([SimpleQueue() for _ in range(ranks)] for _ in range(2))
    worlds = [new_world() for _ in range(ranks)]
    note, note_call = (adding_to([] if notes is None else notes) for notes in (sent, called))
    results: list = [None] * ranks
    store = HashStore()
    members: dict[str, list[int]] = {}
    calls: dict[tuple[str, int], dict[int, _Call]] = defaultdict(dict)  # by group and number of the call: by rank
    numbers: dict[tuple[str, int], int] = defaultdict(int)  # of a group's calls, by rank
    writes: dict[tuple[tuple[str, int], int], list[_Write]] = {}  # by call and rank: for when it has waited
    messages = _Messages(strict)
    done: set[tuple[str, int]] = set()
    waits: dict[int, Any] = {}
    ended: set[int] = set()
    failure: BaseException | None = None
    blamed: int | None = None  # the rank that raises the failure itself

    def can_go_on(rank: int) -> bool:
        if rank in ended:
            return False
        return failure is not None or rank not in waits or waits[rank] in done or waits[rank] in messages.ended

    def take_part(rank: int, name: str, call: _Call) -> tuple[str, int]:
        if strict:
            _need_contiguous(call.inputs)
        note_call(Called(rank, call.kind, sum(each.nbytes for each in call.inputs), len(members[name])))
        key = name, numbers[name, rank]
        numbers[name, rank] += 1
        calls[key][rank] = call
        if len(calls[key]) == len(members[name]):
            group, together = members[name], calls.pop(key)
            for one, own in zip(group, _done([(one, together[one]) for one in group], note), strict=True):
                writes[key, one] = own
            done.add(key)
        return key

    def answer_to(rank: int, what: str, thing: Any) -> Any:
        """What a rank is told at once."""
        if what == "group":
            name, own = thing
            if members.setdefault(name, own) != own:
                raise ValueError(
                    f"rank {rank} makes the group {own} where another one makes {members[name]}. Call new_group on "
                    "every rank for every group, also for those without the rank, in the same order"
                )
        elif what == "collective":
            return take_part(rank, *thing)
        elif what in ("send", "recv"):
            other, name, tag, tensor = thing
            message = messages.begin(what, rank, other, tensor)
            if what == "send":
                note(Sent("send", rank, other, tensor.nbytes, not tensor.is_floating_point()))
                note_call(Called(rank, "send", tensor.nbytes, len(members[name]), other))
            messages.match(message, (name, tag))
            return message.number
        elif what == "return":
            results[rank] = thing
            messages.need_unchanged(rank)
        return None

    def finish(rank: int, which: Any) -> None:
        """After a wait: what has come is written."""
        if which in messages.ended:
            messages.finish(which)
        for write in writes.pop((which, rank), ()):
            _write(*write)

    def trying(step: Callable, *arguments: Any) -> Any:
        nonlocal failure, blamed
        try:
            return step(*arguments)
        except Exception as error:
            if failure is None:
                # A traceback would show this frame to the rank. By its own one, the learner finds the line.
                failure, blamed = error.with_traceback(None), rank if strict else None
        return None

    before, hook = swap_world(worlds[0]), sys.excepthook
    each_thread_has_its_groups(True)
    joins: list[Callable[[float], object]] = []
    try:
        for rank in range(ranks):
            joins.append(start_rank(_work, (main, rank, ranks, store, backend), asked[rank], answers[rank]))
        rank, answer = 0, None
        while True:
            swap_world(worlds[rank])
            stop = None if failure is None else failure if rank == blamed else Stopped()
            answers[rank].put((stop, answer))
            answer = blamed = stop = None
            what, thing = asked[rank].get()
            if what in ("return", "raise"):
                ended.add(rank)
            if what == "wait":
                waits[rank] = thing
            elif what == "raise":
                failure = failure or thing
            else:
                answer = trying(answer_to, rank, what, thing)
            if len(ended) == ranks:
                break
            # A rank works until it has to wait. Then the next one that can goes on, counted from this one.
            if not can_go_on(rank):
                order = [(rank + 1 + n) % ranks for n in range(ranks)]
                if not any(map(can_go_on, order)):
                    failure = Stuck(f"no rank can go on: {_told(waits, ended, calls, members, messages)}")
                rank = next(filter(can_go_on, order))
            which = waits.pop(rank, None)
            if which is not None and failure is None:
                trying(finish, rank, which)
    finally:
        latest = time.monotonic() + JOIN
        for rank, join in enumerate(joins):
            if rank not in ended:  # this thread was interrupted
                answers[rank].put((Stopped(), None))
            join(max(0.0, latest - time.monotonic()))
        each_thread_has_its_groups(False)
        swap_world(before)
        sys.excepthook = hook  # each process group replaces it, to name its rank
    if failure is not None:
        raise failure
    return results


class _Message:
    """A send or a receive."""

    def __init__(self, what: str, rank: int, other: int, tensor: torch.Tensor, number: int):
        self.what, self.rank, self.other, self.tensor, self.number = what, rank, other, tensor.detach(), number
        self.numbers = self.tensor.clone() if what == "send" else None  # those that are sent
        self.send: _Message | None = None  # where this is a receive: the one that it has met


class _Messages:
    """Sends and receives of all ranks."""

    def __init__(self, strict: bool):
        self.ended: set[int] = set()  # numbers of those that need not wait any longer
        self.unwaited: dict[int, _Message] = {}
        self._strict, self._count = strict, 0
        self._alone: dict[tuple, dict[str, deque[_Message]]] = defaultdict(lambda: {"send": deque(), "recv": deque()})

    def begin(self, what: str, rank: int, other: int, tensor: torch.Tensor) -> _Message:
        self._count += 1
        message = _Message(what, rank, other, tensor, self._count)
        if self._strict:
            _need_contiguous([tensor])
            self._need_free(message)
            if what == "recv":
                message.tensor.fill_(float("nan") if tensor.is_floating_point() else 0)
        self.unwaited[message.number] = message
        return message

    def match(self, message: _Message, by: tuple) -> None:
        ends = (message.rank, message.other) if message.what == "send" else (message.other, message.rank)
        if message.what == "send" and not self._strict:
            self.ended.add(message.number)
        alone = self._alone[*ends, *by]
        alone[message.what].append(message)
        while alone["send"] and alone["recv"]:
            send, receive = alone["send"].popleft(), alone["recv"].popleft()
            assert send.numbers is not None
            if (send.numbers.numel(), send.numbers.dtype) != (receive.tensor.numel(), receive.tensor.dtype):
                raise ValueError(
                    f"rank {send.rank} sends {_kind(send.numbers)}, and rank {receive.rank} receives it into "
                    f"{_kind(receive.tensor)}"
                )
            self._need_unchanged(send)
            receive.send = send
            self.ended |= {send.number, receive.number}

    def finish(self, number: int) -> None:
        message = self.unwaited[number]
        send = message.send or message
        self._need_unchanged(send)
        if message.send:
            assert send.numbers is not None
            _write(message.tensor, send.numbers)
        del self.unwaited[number], message.tensor  # others may free it

    def need_unchanged(self, rank: int) -> None:
        """At the end of a rank: what it has sent is as it was."""
        for message in self.unwaited.values():
            if message.rank == rank and message.what == "send":
                self._need_unchanged(message)

    def _need_unchanged(self, send: _Message) -> None:
        if self._strict and send.number in self.unwaited and not _same_bytes(send.numbers, send.tensor):
            raise InUse(f"rank {send.rank} has changed a tensor while it was being sent to rank {send.other}.")

    def _need_free(self, message: _Message) -> None:
        for other in self.unwaited.values():
            sends = message.what == "send"
            if other.rank != message.rank or (sends and other.what == "send"):
                continue
            if _overlap(message.tensor, other.tensor):
                words = f"{'sends' if sends else 'receives into'} a tensor that it is "
                words += "sending" if other.what == "send" else "receiving"
                raise InUse(f"rank {message.rank} {words}, and has not waited for that.")

    def words(self, number: int, ended: set[int]) -> str:
        message = self.unwaited[number]
        other = f"rank {message.other}"
        why = f"until {other} receives" if message.what == "send" else f"for a message from {other}"
        return f"rank {message.rank} waits {why}" + (", which has ended" if message.other in ended else "")


def _same_bytes(a, b) -> bool:
    return torch.equal(a.view(torch.uint8), b.view(torch.uint8)) if a.dim() else torch.equal(a, b)


def _overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    return a.data_ptr() < b.data_ptr() + b.nbytes and b.data_ptr() < a.data_ptr() + a.nbytes


def _need_contiguous(tensors: list[torch.Tensor]) -> None:
    if not all(each.is_contiguous() for each in tensors):
        raise ValueError("Tensors must be contiguous: call .contiguous() before you send")


def _kind(tensor: torch.Tensor) -> str:
    shape = " x ".join(map(str, tensor.shape)) or "one number"
    return f"{shape} of {str(tensor.dtype).removeprefix('torch.')}"


def _told(waits, ended, calls, members, messages) -> str:
    """Which ranks wait in which call, and for which."""
    waiting: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    words = []
    for rank, which in sorted(waits.items()):
        if which in messages.unwaited:
            words.append(messages.words(which, ended))
        else:
            missing = tuple(one for one in members[which[0]] if one not in calls[which])
            waiting[calls[which][rank].kind, missing].append(rank)
    for (call, missing), own in waiting.items():
        ends = [f"{one}, which has ended" if one in ended else str(one) for one in missing]
        wait = "waits" if len(own) == 1 else "wait"
        words.append(f"in {call}, rank {' and '.join(map(str, own))} {wait} for rank {' and '.join(ends)}")
    return "; ".join(words)


_Write = tuple[torch.Tensor, torch.Tensor]  # an output, and the value that it gets


def _done(given: list[tuple[int, _Call]], note: Callable) -> list[list[_Write]]:
    """A collective whose calls are all there: what each rank is to write. What was passed is noted."""
    group, calls = [rank for rank, _ in given], [call for _, call in given]
    writes: list[list[_Write]] = [[] for _ in calls]
    kinds = {call.kind: rank for call, rank in zip(reversed(calls), reversed(group), strict=True)}
    if len(kinds) > 1:
        told = " and ".join(f"rank {rank} calls {kind}" for kind, rank in sorted(kinds.items(), key=lambda one: one[1]))
        raise RuntimeError(f"in the same group, {told}")
    kind, count = calls[0].kind, len(group)
    inputs = [[each.detach().clone() for each in call.inputs] for call in calls]
    whole = [sum(each.nbytes for each in own) for own in inputs]
    counts = not any(each.is_floating_point() for own in inputs for each in own)

    def sends(source: int, to: int, size: float) -> None:
        if source != to and size:
            note(Sent(kind, group[source], group[to], size, counts))

    def around(sizes: list[float]) -> None:
        for source, size in enumerate(sizes):
            sends(source, (source + 1) % count, size)

    if kind == "all_reduce":
        _alike(group, inputs, kind)
        for n in range(len(inputs[0])):
            value = REDUCE[calls[0].more]([own[n] for own in inputs])
            for own, call in zip(writes, calls, strict=True):
                own.append((call.outputs[n], value))
        around([2 * (count - 1) * size / count for size in whole])
    elif kind == "all_gather":
        _alike(group, inputs, kind)
        for place, call in enumerate(calls):
            writes[place] += [(output, own[0]) for output, own in zip(call.outputs, inputs, strict=True)]
        around([(count - 1) * size for size in whole])
    elif kind == "reduce_scatter":
        _alike(group, inputs, kind)
        for place, call in enumerate(calls):
            writes[place].append((call.outputs[0], REDUCE[calls[0].more]([own[place] for own in inputs])))
        around([(count - 1) * size / count for size in whole])
    elif kind == "all_to_all":
        for place, call in enumerate(calls):
            for source, output in enumerate(call.outputs):
                value = inputs[source][place]
                if value.numel() != output.numel():
                    raise ValueError(
                        f"in all_to_all, rank {group[source]} sends {list(value.shape)} to rank {group[place]}, which "
                        f"expects {list(output.shape)}"
                    )
                writes[place].append((output, value))
                sends(source, place, value.nbytes)
    elif kind == "broadcast":
        for place, call in enumerate(calls):
            writes[place] += zip(call.outputs, inputs[calls[0].more], strict=True)
            if (place + 1) % count != calls[0].more:
                sends(place, (place + 1) % count, whole[calls[0].more])
    elif kind == "reduce":
        root, op = calls[0].more
        _alike(group, inputs, kind)
        writes[root].append((calls[root].outputs[0], REDUCE[op]([own[0] for own in inputs])))
        for place in range(count):
            if place != root:
                sends(place, (place + 1) % count, whole[place])
    elif kind == "gather":
        root = calls[0].more
        for place, own in enumerate(inputs):
            writes[root].append((calls[root].outputs[place], own[0]))
            sends(place, root, own[0].nbytes)
    elif kind == "scatter":
        root = calls[0].more
        for place, call in enumerate(calls):
            writes[place].append((call.outputs[0], inputs[root][place]))
            sends(root, place, inputs[root][place].nbytes)
    return writes


def _alike(group: list[int], inputs: list[list[torch.Tensor]], kind: str) -> None:
    shapes = [[(each.numel(), each.dtype) for each in own] for own in inputs]
    for rank, own, shape in zip(group, inputs, shapes, strict=True):
        if shape != shapes[0]:
            told = [", ".join(str(list(each.shape)) for each in one) for one in (inputs[0], own)]
            raise ValueError(f"in {kind}, rank {group[0]} gives {told[0]} and rank {rank} gives {told[1]}")


def _write(output: torch.Tensor, value: torch.Tensor) -> None:
    if output.numel() != value.numel() or output.dtype != value.dtype:
        raise ValueError(
            f"a tensor of {list(output.shape)} {output.dtype} is to receive {list(value.shape)} {value.dtype}"
        )
    with torch.no_grad():
        output.detach().copy_(value.reshape(output.shape))


class _Done(Work):
    """A call that was made: `wait` until it is done."""

    def __init__(self, finish: Callable[[], None], result):
        super().__init__()
        self._finish, self._result = finish, result

    def wait(self, timeout=None) -> bool:
        finish, self._finish = self._finish, lambda: None
        finish()
        return True

    def is_completed(self) -> bool:
        return True

    def is_success(self) -> bool:
        return True

    def result(self):
        return self._result

    def get_future(self):
        self.wait()
        future = torch.futures.Future()
        future.set_result(self._result)
        return future


class _Group(PROCESS_GROUP):
    """A rank's view of a group: it asks for what torch.distributed calls."""

    _device_types = [torch.device("cpu")]  # noqa: RUF012  # a broadcast of a state dict looks here for its device

    def __init__(self, ask: Callable, name: str, ranks: list[int], rank: int):
        super().__init__(rank, len(ranks))
        self._ask, self._name, self._ranks, self._own = ask, name, ranks, rank
        ask("group", (name, ranks))

    def getBackendName(self) -> str:
        return BACKEND

    def _get_backend(self, device) -> _Group:
        return self

    def size(self) -> int:
        return len(self._ranks)

    @property
    def group_name(self) -> str:
        return self._name

    def _together(self, kind: str, inputs, outputs, more=None, result=None) -> _Done:
        key = self._ask("collective", (self._name, _Call(kind, list(inputs), list(outputs), more)))
        return _Done(lambda: self._ask("wait", key), outputs if result is None else result)

    def allreduce(self, tensors, opts=None):
        return self._together("all_reduce", tensors, tensors, _op(opts))

    def allreduce_coalesced(self, tensors, opts=None):
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors, opts):
        return self._together("broadcast", tensors, tensors, opts.rootRank)

    def reduce(self, tensors, opts):
        return self._together("reduce", tensors, tensors, (opts.rootRank, _op(opts)))

    def allgather(self, outputs, inputs, opts=None):
        return self._together("all_gather", inputs, outputs[0], result=outputs)

    def all_gather_single(self, output, tensor, opts=None):
        pieces = output.reshape(-1).tensor_split(self.size()) if output.is_contiguous() else output.chunk(self.size())
        return self._together("all_gather", [tensor], pieces, result=[output])

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        return _all([self.all_gather_single(*both) for both in zip(outputs, inputs, strict=True)], outputs)

    def reduce_scatter(self, outputs, inputs, opts=None):
        return self._together("reduce_scatter", inputs[0], outputs, _op(opts))

    def reduce_scatter_single(self, output, tensor, opts=None):
        flat = tensor.view(-1) if tensor.is_contiguous() else tensor
        return self._together("reduce_scatter", _equal(flat, self.size()), [output], _op(opts))

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None):
        return _all([self.reduce_scatter_single(*both, opts) for both in zip(outputs, inputs, strict=True)], outputs)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        for which, splits in ((output, output_splits), (tensor, input_splits)):
            if splits and (len(splits) != self.size() or sum(splits) != len(which)):
                raise ValueError(f"split sizes {list(splits)} for {len(which)} rows and {self.size()} ranks")
        inputs, outputs = (
            which.split(list(splits)) if splits else _equal(which, self.size())
            for which, splits in ((tensor, input_splits), (output, output_splits))
        )
        return self._together("all_to_all", inputs, outputs, result=[output])

    def alltoall(self, outputs, inputs, opts=None):
        return self._together("all_to_all", inputs, outputs)

    def gather(self, outputs, inputs, opts):
        return self._together("gather", inputs, outputs[0] if outputs else [], opts.rootRank)

    def scatter(self, outputs, inputs, opts):
        return self._together("scatter", inputs[0] if inputs else [], outputs, opts.rootRank)

    def barrier(self, opts=None):
        return self._together("barrier", [], [])

    def send(self, tensors, dst, tag=0):
        return self._message("send", tensors, dst, tag)

    def recv(self, tensors, src, tag=0):
        return self._message("recv", tensors, src, tag)

    def _message(self, what: str, tensors, other: int, tag: int) -> _Done:
        [tensor] = tensors
        number = self._ask(what, (self._ranks[other], self._name, tag, tensor))
        return _Done(lambda: self._ask("wait", number), [])

    # Their names before PyTorch 2.15.
    alltoall_base, _allgather_base, _reduce_scatter_base = all_to_all_single, all_gather_single, reduce_scatter_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced


def _all(works: list[_Done], result) -> _Done:
    def finish() -> None:
        for work in works:
            work.wait()

    return _Done(finish, result)


def _op(opts) -> str:
    for name in REDUCE:
        if opts is None or opts.reduceOp == getattr(dist.ReduceOp, name):
            return name
    raise ValueError(f"ranks in turns cannot reduce by {getattr(opts.reduceOp, 'op', opts.reduceOp)}")


def _equal(tensor: torch.Tensor, count: int) -> list[torch.Tensor]:
    if len(tensor) % count:
        raise ValueError(f"{len(tensor)} rows do not divide into {count} equal pieces")
    return list(tensor.split(len(tensor) // count)) if len(tensor) else [tensor] * count


def _work(ask: Ask, main: Callable, rank: int, ranks: int, store, backend: str) -> object:
    _making.ask = ask
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    return main(rank)


_making = threading.local()


def _made(options, _) -> _Group:
    ranks = list(options.global_ranks_in_group) or list(range(options.group_size))
    return _Group(_making.ask, options.group_id, ranks, options.group_rank)


def _made_on_a_gpu(options, given) -> _Group:
    ask, gpu = _making.ask, torch.get_device_module(GPUS)

    def ask_between_kernels(what: str, thing: object = None) -> object:
        gpu.synchronize()  # tensors are read and written outside the rank's streams
        answer = ask(what, thing)
        gpu.synchronize()
        return answer

    group = _made(options, given)
    group._ask, group._device_types = ask_between_kernels, [torch.device(GPUS)]
    return group


dist.Backend.register_backend(BACKEND, _made, extended_api=True, devices=["cpu"])
dist.Backend.register_backend(ON_A_GPU, _made_on_a_gpu, extended_api=True, devices=[GPUS])
if dist.Backend.default_device_backend_map.get(GPUS) == ON_A_GPU:  # simgpu's own is, which may come later
    del dist.Backend.default_device_backend_map[GPUS]
for _backend in (BACKEND, ON_A_GPU):
    keep_off_the_flight_recorder(_backend)
