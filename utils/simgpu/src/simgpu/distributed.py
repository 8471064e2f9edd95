"""torch.distributed on simulated GPUs: the backend "simccl", which `init_process_group()` picks for them.

Every rank is a process (under torchrun, or forked) with simulated GPUs of its own. Numbers travel by gloo. Times travel
beside them, and a rank's virtual time depends on its own past and on the messages that it has received, and on nothing
else: so it is the same in every run, on however busy a machine.

    collective      begins when its last rank is ready, and takes what `collectives.Fabric` says
    send, receive   begins when both ends are ready: the message carries its sender's time

A collective runs on a stream of its group, as NCCL's do. `work.wait()` lets the current stream wait for it, not the
host. Groups whose ranks share a way (the links of a node, or a GPU's network adapter) take turns on it; a group within
nodes and one between them don't wait for each other.

One process can stand for many: with `store=FakeStore()` it is one rank of `world_size` that all do the same at the same
time, which nobody is asked about. So a step on 512 GPUs can be planned in a notebook.

What would make a program's times depend on chance is refused: a receive from whoever is first.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import NamedTuple
from weakref import WeakKeyDictionary, ref

import torch

from . import torch_private
from .collectives import PROTOCOLS, Fabric
from .hardware import DEVICE_TYPE, Gpu, machine
from .moves import keeping_counts, pinned
from .operators import SPECIAL
from .tensor import SimTensor, are_known, storage_of, value_of
from .waiting import Mismatch, Waiting, of_this_life

NAME = "simccl"
# What starts a send and its receive, beside the link's own time: NCCL's kernel with the protocol for large messages.
PAIR = PROTOCOLS["Simple"].ring_base
c10d = torch_private.c10d
ReduceOp = torch_private.ReduceOp


class SimWork(torch_private.Work):
    """A collective that was given away: the stream that waits for it waits until `end`.

    `finish` completes what has to come from elsewhere (a receive) and returns the end; None where all is known.
    """

    def __init__(self, result, gpu: Gpu | None, end: float, finish: Callable[[], float] | None = None):
        super().__init__()
        self._result, self._gpu, self.end, self._finish = result, gpu, end, finish
        self._future: torch.futures.Future | None = None
        self._waited_for = False

    def complete(self) -> None:
        if self._finish is not None:
            finish, self._finish = self._finish, None
            self.end = finish()

    def wait(self, timeout=None) -> bool:
        self.complete()
        self._waited_for = True
        if self._gpu is not None:
            machine.queue(self._gpu).wait_until(self.end)
        if self._future is not None and not self._future.done():
            self._future.set_result(self._result)
        return True

    def get_future(self):
        """Done at once; of what was launched in a backward pass, when that ends: what overlaps with it does not wait.

        DDP asks as soon as it has launched, and waits in a callback of the autograd engine that it adds after ours.
        Who waits before then, in a hook, waits for the collective, and lets the current stream wait for it.
        """
        if self._future is None:
            self._future = torch.futures.Future()
            if self._waited_for or torch_private.current_node() is None:
                self.wait()
            else:
                torch_private.await_in_backward(self.wait)
        return self._future

    def is_completed(self) -> bool:
        self.complete()
        return self.end <= machine.clock.now()

    def is_success(self) -> bool:
        return True

    def synchronize(self) -> None:
        self.wait()

    def result(self):
        return self._result


class SimBackend(torch_private.Backend):
    """One process group on simulated GPUs. Its methods are those that PyTorch calls of a backend."""

    def __init__(self, options, _group_options=None):
        super().__init__(options.group_rank, options.group_size)
        self.group_rank, self.ranks = options.group_rank, options.group_size
        self.members = list(options.global_ranks_in_group) or list(range(self.ranks))
        self.alone = torch_private.is_fake(options.store)
        self.fabric = _fabric(self.members)
        self.ways = _ways(self.fabric)
        self.free = 0.0  # when the group's own stream is
        self.among = f"ranks {_in_words(self.members)}"
        self._sent: dict[tuple, int] = {}  # how many messages from whom to whom, by tag, at this end
        self._to_itself: dict[str, torch.Tensor] = {}  # numbers on the way, by message
        self._window: list[SimWork] | None = None  # what is launched while works are coalesced
        if not self.alone:
            store = torch.distributed.PrefixStore(of_this_life("group"), options.store)
            self._waiting = Waiting(store, self.members, self.group_rank)
        if self.alone or self.ranks == 1:
            self._gloo = _AllEqual(self.group_rank, self.ranks)
        else:
            self._gloo = self._waiting.connect(self.ranks, options.timeout)

    # --- what PyTorch asks about a backend: one that is left out asks itself for ever ---------------------------

    def getBackendName(self) -> str:
        return NAME

    supports_shrinking = supports_reconfigure = supports_window = False
    supports_time_estimate = _supports_time_estimate = supports_abort_hooks = False
    supports_splitting = supports_coalescing = True

    @property
    def options(self):
        return c10d.Backend.Options(NAME)

    def split(self, store, ranks: Sequence[int], options) -> SimBackend:
        """The backend of a part of this group; `ranks` are numbers in it.

        PyTorch splits, where otherwise it makes a group anew, once `init_process_group` was told `device_id`. Raises
        RuntimeError on a rank that is in no part: told so, by None, PyTorch 2.15.0 ends with a segmentation fault.
        """
        if self.group_rank not in ranks:
            raise RuntimeError(
                f"split_group: rank {self.members[self.group_rank]} is in none of split_ranks, which {NAME} has no way "
                "to tell PyTorch. Give it a list of its own, or use new_group."
            )
        part = SimpleNamespace(store=store, timeout=options._timeout, group_size=len(ranks))
        part.group_rank = list(ranks).index(self.group_rank)
        part.global_ranks_in_group = [self.members[rank] for rank in ranks]
        return SimBackend(part)

    def perform_nocolor_split(self, device) -> None:
        """What PyTorch calls on the ranks outside of a new group; only NCCL has to take part in a split of others."""

    def supports_tensor_alloc(self, device) -> bool:
        return False

    def start_coalescing(self) -> None:
        self._window = []

    def end_coalescing(self) -> SimWork:
        works, self._window = self._window or [], None

        def finish() -> float:
            for work in works:
                work.complete()
            return max((work.end for work in works), default=0.0)

        gpu = next((work._gpu for work in works if work._gpu is not None), None)
        return SimWork([], gpu, 0.0, finish)

    # --- collectives --------------------------------------------------------------------------------------------

    def allreduce(self, tensors, opts=None) -> SimWork:
        op = _reduction(opts, tensors)
        return self._collective("all_reduce", tensors, tensors, lambda: self._reduce_all(tensors, op), str(op))

    def allreduce_coalesced(self, tensors, opts=None) -> SimWork:
        return self.allreduce(tensors, opts)

    def reduce(self, tensors, opts=None) -> SimWork:
        self._require_root(opts, "reduce")
        op = _reduction(opts, tensors)

        def data():
            for tensor in tensors:
                kept = _value(tensor).clone()
                self._reduce_all([tensor], op)
                if self.group_rank != opts.rootRank:
                    _value(tensor).copy_(kept)

        return self._collective("reduce", tensors, tensors, data, f"to {opts.rootRank}, {op}")

    def broadcast(self, tensors, opts=None) -> SimWork:
        self._require_root(opts, "broadcast")

        def data():
            for tensor in tensors:
                with _contiguous(tensor) as value:
                    self._gloo.broadcast([value], _options("Broadcast", rootRank=opts.rootRank)).wait()

        return self._collective("broadcast", tensors, tensors, data, f"from {opts.rootRank}")

    def allgather(self, outputs, inputs, opts=None) -> SimWork:
        for parts, own in zip(outputs, inputs, strict=True):
            self._require_parts(parts, own, "all_gather's list of outputs", self.group_rank)
        if not all(map(_are_alike, outputs)):
            return self._gather_unlike(outputs, inputs)

        def data():
            for parts, own in zip(outputs, inputs, strict=True):
                for part, got in zip(parts, self._gathered(_value(own), [_value(own)] * self.ranks), strict=True):
                    _value(part).copy_(got.view(part.shape))  # as NCCL, which counts numbers and no dimensions

        return self._collective("all_gather", inputs, outputs, data, times=self.ranks)

    def _gather_unlike(self, outputs, inputs) -> SimWork:
        """An all-gather of parts of unlike sizes: each is broadcast, as by NCCL."""

        def data():
            for parts, own in zip(outputs, inputs, strict=True):
                _value(parts[self.group_rank]).copy_(_value(own).view(parts[self.group_rank].shape))
                for root, part in enumerate(parts):
                    with _contiguous(part) as value:
                        self._gloo.broadcast([value], _options("Broadcast", rootRank=root)).wait()

        return self._collective("all_gather", _flat(outputs), outputs, data, _sizes(outputs), shapes=False)

    def all_gather_single(self, output, input, opts=None) -> SimWork:
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs, inputs, opts=None) -> SimWork:
        for output, input in zip(outputs, inputs, strict=True):
            self._require_whole(output, input, "all_gather's output")

        def data():
            for output, input in zip(outputs, inputs, strict=True):
                own = _value(input)
                _fill(output, self._gathered(own, [own] * self.ranks))

        return self._collective("all_gather", inputs, outputs, data, times=self.ranks)

    def reduce_scatter(self, outputs, inputs, opts=None) -> SimWork:
        for output, parts in zip(outputs, inputs, strict=True):
            self._require_parts(parts, output, "reduce_scatter's list of inputs", self.group_rank)
        op = _reduction(opts, outputs)

        def data():
            for output, parts in zip(outputs, inputs, strict=True):
                whole = self._reduced(torch.cat([_value(part).reshape(-1) for part in parts]), op)
                own = whole.split([part.numel() for part in parts])[self.group_rank]
                _value(output).copy_(own.view(output.shape))

        unlike = "" if all(map(_are_alike, inputs)) else f", {_sizes(inputs)}"
        return self._collective("reduce_scatter", _flat(inputs), outputs, data, f"{op}{unlike}")

    def reduce_scatter_single(self, output, input, opts=None) -> SimWork:
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs, inputs, opts=None) -> SimWork:
        for output, input in zip(outputs, inputs, strict=True):
            self._require_whole(input, output, "reduce_scatter's input")
        op = _reduction(opts, outputs)

        def data():
            for output, input in zip(outputs, inputs, strict=True):
                whole = self._reduced(_value(input), op)
                _fill(output, [whole.reshape(self.ranks, -1)[self.group_rank]])

        return self._collective("reduce_scatter", inputs, outputs, data, str(op))

    _allgather_base, _reduce_scatter_base = all_gather_single, reduce_scatter_single

    def gather(self, outputs, inputs, opts=None) -> SimWork:
        self._require_root(opts, "gather")
        for parts in outputs if self.group_rank == opts.rootRank else ():
            self._require_parts(parts, inputs[0], "gather's list of outputs")

        def data():
            got = self._gathered(_value(inputs[0]), [_value(inputs[0])] * self.ranks)
            if self.group_rank == opts.rootRank:
                for part, value in zip(outputs[0], got, strict=True):
                    _value(part).copy_(value)

        details = f"to {opts.rootRank}"
        return self._collective("all_gather", inputs, outputs, data, details, times=self.ranks, called="gather")

    def scatter(self, outputs, inputs, opts=None) -> SimWork:
        self._require_root(opts, "scatter")
        for parts in inputs if self.group_rank == opts.rootRank else ():
            self._require_parts(parts, outputs[0], "scatter's list of inputs")

        def data():
            with _contiguous(outputs[0]) as value:
                parts = [[_value(part).contiguous() for part in inputs[0]]] if inputs and inputs[0] else []
                self._gloo.scatter([value], parts, _options("Scatter", rootRank=opts.rootRank)).wait()

        details = f"from {opts.rootRank}"
        return self._collective("all_gather", outputs, outputs, data, details, times=self.ranks, called="scatter")

    def all_to_all_single(self, output, input, output_sizes, input_sizes, opts=None) -> SimWork:
        sizes = [self._splits(output, output_sizes, "output"), self._splits(input, input_sizes, "input")]

        def data():
            self._require_pairs(*sizes)
            with _contiguous(output) as value:
                self._gloo.all_to_all_single(value, _value(input).contiguous(), output_sizes, input_sizes).wait()

        # What each rank sends to which may differ, so shapes are no sign of a mistake.
        return self._collective("all_to_all", [input], [output], data, _dtype(input), shapes=False)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs, inputs, opts=None) -> SimWork:
        for parts, which in ((outputs, "outputs"), (inputs, "inputs")):
            self._require(len(parts) == self.ranks, f"all_to_all's list of {which} has {len(parts)} tensors", EACH)

        def data():
            sizes = [[value.numel() for value in map(_value, parts)] for parts in (outputs, inputs)]
            self._require_pairs(*sizes)
            flat = torch.cat([_value(part).reshape(-1) for part in inputs])
            got = flat.new_empty(sum(sizes[0]))
            self._gloo.all_to_all_single(got, flat, *sizes).wait()
            for part, value in zip(outputs, got.split(sizes[0]), strict=True):
                _value(part).copy_(value.view_as(_value(part)))

        return self._collective("all_to_all", inputs, outputs, data, _dtype(inputs[0]), shapes=False)

    def barrier(self, opts=None) -> SimWork:
        """All ranks' hosts and GPUs wait for the last."""
        gpu = machine.gpu(None)
        launched = machine.clock.pay(gpu.profile.launch, gpu.index)
        ready = max(launched, gpu.free, gpu.link.free, gpu.network.free)
        end = self._agreed(ready, "barrier()", None) + self.fabric.seconds("all_reduce", 4)
        self._take(gpu, self.ways, "barrier", ready, end, 0, launched, self.among)
        machine.wait_until(end)
        return SimWork([], gpu, end)

    # --- from one rank to another -------------------------------------------------------------------------------

    def send(self, tensors, dst: int, tag: int = 0) -> SimWork:
        self._require_other(dst, "send to")
        what = f"send({_shapes(tensors)}, dst={self.members[dst]}{_tagged(tag)})"
        message = self._message(tensors, self.group_rank, dst, "send", what, tag)
        if self.alone:
            return self._keep(message.work_alone())
        with self._waiting(what):
            self._waiting.leave(message.key("ready to send"), message.words)
            # What is sent is what the tensor holds now, and goes at once: the sender may wait much later.
            copy = _value(tensors[0]).contiguous().clone() if machine.compute else None
            sent = []
            if copy is not None and dst == self.group_rank:
                self._to_itself[message.key("numbers")] = copy
            elif copy is not None:
                sent = [self._gloo.send([copy], dst, message.place)]

        def finish() -> float:
            with self._waiting(what):
                end = message.end(self._waiting.find(message.key("ready to receive")))
                for work in sent:
                    work.wait()
            return end

        return self._keep(message.work(finish))

    def recv(self, tensors, src: int, tag: int = 0) -> SimWork:
        self._require_other(src, "receive from")
        what = f"recv({_shapes(tensors)}, src={self.members[src]}{_tagged(tag)})"
        message = self._message(tensors, src, self.group_rank, "recv", what, tag)
        if self.alone:
            return self._keep(message.work_alone())
        value = _value(tensors[0])
        into = torch.empty_like(value, memory_format=torch.contiguous_format)
        with self._waiting(what):
            self._waiting.leave(message.key("ready to receive"), message.words)
            from_another = machine.compute and src != self.group_rank
            got = [self._gloo.recv([into], src, message.place)] if from_another else []

        def finish() -> float:
            with self._waiting(what):
                end = message.end(self._waiting.find(message.key("ready to send")))
                for work in got:
                    work.wait()
            if machine.compute:
                value.copy_(into if from_another else self._to_itself.pop(message.key("numbers")))
            return end

        return self._keep(message.work(finish))

    def _message(self, tensors, source: int, target: int, name: str, what: str, tag: int) -> _Message:
        gpu = _gpu_of(tensors)
        link = _link(self.members[source], self.members[target])
        ways = ("link",) if link is machine.settings.link else ("network",)
        seconds = PAIR + link.seconds(_bytes(tensors))
        if source == target:  # a copy, which reads and writes
            ways, seconds = (), PAIR + 2 * _bytes(tensors) / gpu.profile.bandwidth
        ready, launched = self._ready(gpu, ways)
        end = name, source, target, tag
        self._sent[end] = number = self._sent.get(end, 0) + 1
        key = f"{source} to {target}, {tag}, {number}"
        return _Message(
            self, gpu, ways, name, tensors, ready, launched, seconds, target if name == "send" else source, what, key
        )

    def recv_anysource(self, tensors, tag: int = 0):
        raise RuntimeError(
            f"{NAME} has no receive from any rank: who comes first is chance, and so would be all times after it. "
            "Name the sender: dist.recv(tensor, src=...)."
        )

    # --- what makes no sense ------------------------------------------------------------------------------------

    @staticmethod
    def _require(so: bool, what: str, advice: str) -> None:
        if not so:
            raise ValueError(f"{what}: {advice}")

    def _require_root(self, opts, name: str) -> None:
        root = opts.rootRank
        self._require(0 <= root < self.ranks, f"{name} has rank {root} for its root", self._there_are())

    def _require_other(self, other: int, name: str) -> None:
        self._require(0 <= other < self.ranks, f"cannot {name} rank {other}", self._there_are())
        together = other != self.group_rank or self._window is not None  # as NCCL, which has to begin both at once
        self._require(together, f"cannot {name} itself", "the tensor is there already, copy_ moves it")

    def _there_are(self) -> str:
        return f"ranks of this group are 0 to {self.ranks - 1}"

    def _require_parts(self, parts, own, name: str, place: int | None = None) -> None:
        """A list has a tensor for each rank, as large as `own`; where others may differ, the one at a `place` has."""
        self._require(len(parts) == self.ranks, f"{name} has {len(parts)} tensors", f"{EACH}, {self.ranks} in all")
        at = "" if place is None else f" at place {place}"
        for part in parts if place is None else [parts[place]]:
            self._require(
                part.numel() == own.numel() and part.dtype == own.dtype,
                f"{name} has {_shapes([part])}{at}, where {_shapes([own])} goes or comes from",
                "the tensors of all ranks have to be alike" if place is None else "these two have to be alike",
            )

    def _require_whole(self, whole, part, name: str) -> None:
        """A tensor has room for one part of each rank, one after the other."""
        self._require(
            whole.numel() == self.ranks * part.numel(),
            f"{name} is {_shapes([whole])}, and the part of each rank is {_shapes([part])}",
            f"it has to be {self.ranks} times as large",
        )
        self._require(whole.is_contiguous(), f"{name} is not contiguous", "use a new tensor, or .contiguous()")

    def _splits(self, tensor, sizes: list[int], name: str) -> list[int]:
        """How many rows of a tensor belong to each rank. ValueError where they are not all of its rows."""
        rows = tensor.shape[0] if tensor.dim() else 0
        if not sizes:
            told = f"all_to_all's {name} has {rows} rows"
            self._require(rows % self.ranks == 0, told, f"{self.ranks} ranks need as many each, or {name}_split_sizes")
            return [rows // self.ranks] * self.ranks
        told = f"all_to_all's {name}_split_sizes are {list(sizes)}, and its {name} has {rows} rows"
        self._require(len(sizes) == self.ranks and sum(sizes) == rows, told, f"{EACH}, and their sum is all rows")
        return list(sizes)

    def _require_pairs(self, wanted: list[int], given: list[int]) -> None:
        """What one rank gives another is what that one wants. Raises Mismatch on all ranks where it is not."""
        mine = torch.tensor([wanted, given])
        both = torch.stack(self._gathered(mine, [mine] * self.ranks))
        for source, target in torch.nonzero(both[:, 1] != both[:, 0].T).tolist():
            raise Mismatch(
                f"in all_to_all, rank {self.members[source]} has {both[source, 1, target]} for rank "
                f"{self.members[target]}, which expects {both[target, 0, source]}: place {target} of the former's "
                f"input sizes has to be place {source} of the latter's output sizes."
            )

    # --- times --------------------------------------------------------------------------------------------------

    def _collective(self, name, inputs, outputs, data, details="", *, times=1, shapes=True, called="") -> SimWork:
        """Launch a collective. `data` moves the numbers; `times` the bytes of `inputs` are the size of the whole.

        It takes what `name` takes; `called` is what its caller knows it by, where that is something else.
        """
        gpu, size = _gpu_of([*inputs, *_flat(outputs)]), _bytes(inputs) * times
        what = f"{called or name}({_shapes(inputs) if shapes else ''}{', ' * bool(details and shapes)}{details})"
        ready, launched = self._ready(gpu, self.ways)
        ready = max(ready, self.free)
        end = self._agreed(ready, what, gpu) + self.fabric.seconds(name, size)
        self._take(gpu, self.ways, called or name, ready, end, size, launched, self.among)
        if are_known(inputs, outputs):
            with nullcontext() if self.alone else self._waiting.moving(what):
                data()
        _arrivals.update(
            (storage_of(tensor), (end, ref(tensor))) for tensor in _flat(outputs) if type(tensor) is SimTensor
        )
        return self._keep(SimWork(outputs, gpu, end))

    def _ready(self, gpu: Gpu, ways: tuple[str, ...]) -> tuple[float, float]:
        """(when this rank can begin on these ways, when its host has launched it)."""
        launched = machine.clock.pay(gpu.profile.launch, gpu.index)
        free = (getattr(gpu, way).free for way in ways)
        return max(launched, machine.told(machine.queue(gpu)), *free), launched

    def _agreed(self, ready: float, what: str, gpu: Gpu | None) -> float:
        """When the last rank of the group is ready. RuntimeError on all of them where they do not do the same."""
        if self.alone or self.ranks == 1:
            return ready
        with self._waiting(what):
            return self._waiting.agreed(ready, what, -1 if gpu is None else self._place(gpu))

    def _place(self, gpu: Gpu) -> int:
        """What no other rank may have: a GPU of the node; -1 where a process sees one GPU only, as it may its own."""
        if machine.settings.count == 1:
            return -1
        node = self.members[self.group_rank] // _per_node(_world())
        return gpu.index + node * machine.settings.count

    def _take(
        self, gpu: Gpu, ways, name: str, ready: float, end: float, size: int, launched: float, among: str
    ) -> None:
        self.free = max(self.free, end)
        for way in ways:
            engine = getattr(gpu, way)
            engine.free = max(engine.free, end)
        machine.communicate(gpu, name, ready, end, size, launched, among)

    def _keep(self, work: SimWork) -> SimWork:
        if self._window is not None:
            self._window.append(work)
        return work

    # --- numbers ------------------------------------------------------------------------------------------------

    def _gathered(self, own, like) -> list[torch.Tensor]:
        got = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in like]
        self._gloo.allgather([got], [own.detach().contiguous()]).wait()
        return got

    def _reduced(self, value, op: _Reduction) -> torch.Tensor:
        whole = value.detach().contiguous().clone()
        self._reduce_values(whole, op)
        return whole

    def _reduce_all(self, tensors, op: _Reduction) -> None:
        for tensor in tensors:
            with _contiguous(tensor) as value:
                self._reduce_values(value, op)

    def _reduce_values(self, value, op: _Reduction) -> None:
        numbers = torch.view_as_real(value) if value.is_complex() else value
        if op.factor is not None:
            numbers.mul_(op.factor)
        if numbers.dtype == torch.bool:
            numbers = numbers.view(torch.uint8)
        self._gloo.allreduce([numbers], _options("Allreduce", reduceOp=getattr(ReduceOp, op.of_gloo))).wait()
        if op.name == "AVG":
            numbers.div_(self.ranks, rounding_mode=None if numbers.is_floating_point() else "trunc")


class _AllEqual:
    """What gloo does, where all ranks hold the numbers of this one: it is all of them, or stands for them."""

    def __init__(self, rank: int, ranks: int):
        self._rank, self._ranks = rank, ranks

    def wait(self) -> None:
        """Nothing: what a call gives is its own work, and done."""

    def allreduce(self, tensors, options) -> _AllEqual:
        for tensor in tensors:
            if options.reduceOp == ReduceOp.SUM:
                tensor.mul_(self._ranks)
            elif options.reduceOp == ReduceOp.PRODUCT:
                tensor.pow_(self._ranks)
        return self

    def allgather(self, outputs, inputs) -> _AllEqual:
        for parts, own in zip(outputs, inputs, strict=True):
            for part in parts:
                part.copy_(own)
        return self

    def broadcast(self, tensors, options) -> _AllEqual:
        return self

    def scatter(self, outputs, inputs, options) -> _AllEqual:
        if inputs:
            outputs[0].copy_(inputs[0][self._rank])
        return self

    def all_to_all_single(self, output, input, output_sizes, input_sizes) -> _AllEqual:
        parts = input.split(input_sizes) if input_sizes else input.chunk(self._ranks)
        output.copy_(torch.cat([parts[self._rank]] * self._ranks))
        return self


# When what a collective makes is there, and the tensor that PyTorch knows its work by. It looks by storage, and here a
# view has one of its own: DTensor's products of what was gathered would not wait, and the work never be given away.
_arrivals: WeakKeyDictionary = WeakKeyDictionary()


def _wait_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if type(tensor) is SimTensor and (arrival := _arrivals.pop(storage_of(tensor), None)) is not None:
        end, known = arrival
        machine.queue(tensor._gpu).wait_until(end)
        if (made := known()) is not None:
            torch_private.kernel_of_collectives(WAIT)(made)
            return tensor
    return torch_private.kernel_of_collectives(WAIT)(tensor)


WAIT = torch_private.WAIT_FOR_COLLECTIVE


class _Message:
    """One end of a message. Both ends tell each other when they are ready and what they think it is."""

    def __init__(self, backend, gpu, ways, name, tensors, ready, launched, seconds, other, what, key):
        self._backend, self._gpu, self._ways, self._name, self._tensors = backend, gpu, ways, name, tensors
        ends = backend.members[backend.group_rank], backend.members[other]
        self._between = "rank {} to rank {}".format(*(ends if name == "send" else ends[::-1]))
        self._ready, self._launched, self._seconds, self._other, self._what = ready, launched, seconds, other, what
        self._key = key
        self.words = [ready, _shapes(tensors)]
        # Gloo's tag for the numbers: another for another shape, because gloo would break the connection over it.
        self.place = zlib.crc32(f"{key.rpartition(',')[0]} {_shapes(tensors)}".encode()) % 2**30

    def key(self, of: str) -> str:
        return f"message {self._key}, {of}"

    def end(self, answer: list) -> float:
        """When it has arrived, by the other end's words. RuntimeError where it has another tensor."""
        if answer[1] != self.words[1]:
            ends = [(self._backend.group_rank, self.words[1]), (self._other, answer[1])]
            (one, sent), (other, expected) = ends if self._name == "send" else reversed(ends)
            one, other = self._backend.members[one], self._backend.members[other]
            raise Mismatch(
                f"rank {one} sends {sent} to rank {other}, which receives it as {expected}: make them alike."
            )
        return self._take(max(self._ready, answer[0]) + self._seconds)

    def _take(self, end: float) -> float:
        size = _bytes(self._tensors)
        self._backend._take(self._gpu, self._ways, self._name, self._ready, end, size, self._launched, self._between)
        return end

    def work(self, finish) -> SimWork:
        return SimWork(self._tensors, self._gpu, self._ready, finish)

    def work_alone(self) -> SimWork:
        return SimWork(self._tensors, self._gpu, self._take(self._ready + self._seconds))


NO_OFFLOAD = (
    f"FSDP1 keeps its weights on the CPU by exchanging data inside a tensor (CPUOffload), which a {DEVICE_TYPE} tensor "
    "cannot: leave cpu_offload out, or use fully_shard (FSDP2) with offload_policy=CPUOffloadPolicy()."
)
EACH = "there has to be one for each rank of the group"
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "PREMUL_SUM")  # as NCCL


class _Reduction(NamedTuple):
    """How numbers of all ranks become one: by what is done among them, after each rank has taken its own times
    `factor`, where there is one."""

    name: str
    of_gloo: str  # what gloo can do of it
    factor: float | torch.Tensor | None = None

    def __str__(self) -> str:
        return self.name if type(self.factor) is not float else f"{self.name} by {self.factor:.4g}"


def _reduction(opts, tensors) -> _Reduction:
    """What a call asks for, SUM where nothing: ValueError or TypeError for what NCCL does not do with such tensors."""
    op = ReduceOp.SUM if opts is None else opts.reduceOp
    name = next((name for name in dir(ReduceOp) if name.isupper() and op == getattr(ReduceOp, name)), "?")
    if name not in REDUCTIONS:
        raise ValueError(f"{NAME} cannot reduce with {name}, and neither can NCCL. It can: {', '.join(REDUCTIONS)}.")
    dtype = tensors[0].dtype
    fractions = dtype.is_floating_point or dtype.is_complex
    if (name == "AVG" and dtype == torch.bool) or (name == "PREMUL_SUM" and not fractions):
        raise TypeError(f"{NAME} cannot reduce {_dtype(tensors[0])} with {name}, and neither can NCCL.")
    if name == "PREMUL_SUM":
        return _Reduction(name, "SUM", _value(op.factor) if isinstance(op.factor, torch.Tensor) else op.factor)
    if dtype == torch.bool:  # a sum of truths is whether there is one, a product whether all are
        return _Reduction(name, {"SUM": "MAX", "PRODUCT": "MIN"}.get(name, name))
    return _Reduction(name, "SUM" if name == "AVG" else name)


def _options(kind: str, **values):
    options = getattr(c10d, f"{kind}Options")()
    for name, value in values.items():
        setattr(options, name, value)
    return options


def _gpu_of(tensors) -> Gpu:
    """The GPU of what a collective is given. RuntimeError where it is not on one."""
    gpus = {tensor._gpu for tensor in _flat(tensors) if type(tensor) is SimTensor}
    if len(gpus) != 1:
        places = ", ".join(sorted({str(tensor.device) for tensor in _flat(tensors)}))
        raise RuntimeError(f"{NAME} needs all tensors of a call on one simulated GPU, and these are on {places}.")
    return gpus.pop()


def _flat(tensors) -> list[torch.Tensor]:
    return [tensor for each in tensors for tensor in (each if isinstance(each, (list, tuple)) else [each])]


def _bytes(tensors: Sequence[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _in_words(numbers: list[int]) -> str:
    """0 to 3; or 0, 2."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and numbers == list(range(first, last + 1)):
        return f"{first} to {last}"
    return ", ".join(map(str, numbers))


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _shapes(tensors) -> str:
    told = [f"{_dtype(tensor)}{list(tensor.shape)}" for tensor in tensors]
    return " and ".join(told) if len(told) < 4 else f"{' and '.join(told[:2])} and {len(told) - 2} more"


def _are_alike(parts) -> bool:
    return len({part.numel() for part in parts}) == 1


def _sizes(lists) -> str:
    return f"parts of {' and '.join(str([part.numel() for part in parts]) for parts in lists)} numbers"


def _tagged(tag: int) -> str:
    return f", tag={tag}" if tag else ""


def _value(tensor: torch.Tensor) -> torch.Tensor:
    return value_of(tensor).detach() if type(tensor) is SimTensor else tensor


class _contiguous:
    """The values of a tensor as gloo wants them, written back into it afterwards."""

    def __init__(self, tensor):
        self._value = _value(tensor)

    def __enter__(self) -> torch.Tensor:
        self._given = self._value.contiguous()
        return self._given

    def __exit__(self, *exception) -> None:
        if self._given is not self._value:
            self._value.copy_(self._given)


def _fill(output, parts: Sequence[torch.Tensor]) -> None:
    value = _value(output)
    value.copy_(torch.cat([part.reshape(-1) for part in parts]).view(value.shape))


# --- who is linked with whom --------------------------------------------------------------------------------------


def _per_node(world: int) -> int:
    """How many ranks a node has: as torchrun says, else as the machine was made."""
    if machine.settings.nodes > 1:
        return max(1, world // machine.settings.nodes)
    local = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    return local if 0 < local < world else world


def _world() -> int:
    return int(os.environ.get("WORLD_SIZE", 0)) or _ranks_known


_ranks_known = 1  # of the largest group so far, where no environment says how many there are


def _fabric(members: list[int]) -> Fabric:
    global _ranks_known
    _ranks_known = max(_ranks_known, len(members), max(members) + 1)
    nodes = len({rank // _per_node(_world()) for rank in members})
    return Fabric(len(members), nodes, machine.settings.link, machine.settings.network)


def _ways(fabric: Fabric) -> tuple[str, ...]:
    """Which engines of a GPU a group keeps busy: a ring over several nodes passes through the links of each, too."""
    if fabric.nodes == 1:
        return ("link",)
    return ("network",) if fabric.ranks == fabric.nodes else ("link", "network")


def _link(one: int, other: int):
    per_node = _per_node(_world())
    return machine.settings.link if one // per_node == other // per_node else machine.settings.network


def _simulated(device: torch.device) -> torch.device:
    """A device of the other name that simulated GPUs have (`as_cuda`) by their own."""
    return torch.device(DEVICE_TYPE, device.index) if device.type == machine.also_named else device


def register_backend() -> None:
    """Let torch.distributed find the backend, and pick it for simulated GPUs, where this PyTorch has what it needs."""
    if torch_private.has_python_backends():
        torch_private.let_ddp_find_unused_parameters(pinned.add)
        torch_private.let_ddp_read_counts(keeping_counts)
        torch_private.let_ddp_cast(DEVICE_TYPE)
        torch_private.let_fsdp_move_models(DEVICE_TYPE)
        torch_private.let_fsdp1_run(DEVICE_TYPE, _simulated, NO_OFFLOAD)
        torch_private.let_storages_count_numbers(SimTensor)
        torch_private.let_checkpoints_copy(lambda tensor: type(tensor) is SimTensor)
        torch_private.keep_off_the_flight_recorder(NAME)
        torch_private.keep_off_the_wrapper_of_groups(SimBackend)
        SPECIAL[WAIT] = _wait_tensor
        torch.distributed.Backend.register_backend(NAME, SimBackend, extended_api=True, devices=[DEVICE_TYPE])
