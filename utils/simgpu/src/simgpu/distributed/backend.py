"""The backend "simccl": what PyTorch calls of a process group on simulated GPUs, and all collectives."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from types import SimpleNamespace

import torch

from .. import torch_private
from ..faults import OtherCollective, SkippedCollective
from ..hardware import machine
from ..tensor import are_known
from ..waiting import Mismatch
from .arguments import (
    EACH,
    NAME,
    Checks,
    Contiguous,
    are_alike,
    bytes_in,
    bytes_of_rows,
    dtype_name,
    fill_from,
    flattened,
    gpu_of,
    numbers_of,
    require,
    shapes_of,
    sizes_of,
)
from .group import CollectiveCall, Group
from .point_to_point import PointToPoint
from .reductions import Reduction, gloo_options, reduce_values, reduction_of
from .work import SimWork, note_arrivals

c10d = torch_private.c10d
ONE_NUMBER = [torch.zeros(1)]  # NCCL's barrier reduces one


class SimBackend(torch_private.Backend):
    """One process group on simulated GPUs. Its methods are those that PyTorch calls of a backend."""

    def __init__(self, options, _group_options=None):
        super().__init__(options.group_rank, options.group_size)
        self._group = Group(options, self)
        self.group_rank, self.ranks, self.members = self._group.rank, self._group.ranks, self._group.members
        self._gloo = self._group.gloo
        self._check = Checks(self.group_rank, self.ranks)
        self._messages = PointToPoint(self._group)
        self._window: list[SimWork] | None = None  # what is launched while works are coalesced

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

        PyTorch splits, where otherwise it makes a new group, once `init_process_group` was told `device_id`. Raises
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
        self._messages.begin_together()

    def end_coalescing(self) -> SimWork:
        works, self._window = self._window or [], None
        entry = self._messages.end_together()

        def finish() -> float:
            for work in works:
                work.complete()
            end = max((work.end for work in works), default=0.0)
            self._messages.completed_together(entry, end)
            return end

        gpu = next((work._gpu for work in works if work._gpu is not None), None)
        return SimWork([], gpu, 0.0, finish)

    # --- collectives --------------------------------------------------------------------------------------------

    def allreduce(self, tensors, opts=None, recorded="") -> SimWork:
        op = reduction_of(opts, tensors)

        def data():
            self._reduce_all(tensors, op)

        return self._collective("all_reduce", tensors, tensors, data, str(op), recorded=recorded)

    def allreduce_coalesced(self, tensors, opts=None) -> SimWork:
        return self.allreduce(tensors, opts, "allreduce_coalesced")

    def reduce(self, tensors, opts) -> SimWork:
        self._check.root(opts, "reduce")
        op = reduction_of(opts, tensors)

        def data():
            for tensor in tensors:
                kept = numbers_of(tensor).clone()
                self._reduce_all([tensor], op)
                if self.group_rank != opts.rootRank:
                    numbers_of(tensor).copy_(kept)

        return self._collective("reduce", tensors, tensors, data, f"to {opts.rootRank}, {op}")

    def broadcast(self, tensors, opts) -> SimWork:
        self._check.root(opts, "broadcast")

        def data():
            for tensor in tensors:
                with Contiguous(tensor) as value:
                    self._gloo.broadcast([value], gloo_options("Broadcast", rootRank=opts.rootRank)).wait()

        return self._collective("broadcast", tensors, tensors, data, f"from {opts.rootRank}")

    def allgather(self, outputs, inputs, opts=None) -> SimWork:
        for parts, own in zip(outputs, inputs, strict=True):
            self._check.parts(parts, own, "all_gather's list of outputs", self.group_rank)
        if not all(map(are_alike, outputs)):
            return self._gather_unlike(outputs, inputs)

        def data():
            for parts, own in zip(outputs, inputs, strict=True):
                for part, got in zip(parts, self._gathered(numbers_of(own)), strict=True):
                    numbers_of(part).copy_(got.view(part.shape))  # as NCCL, which counts numbers and no dimensions

        return self._collective("all_gather", inputs, outputs, data, times=self.ranks)

    def _gather_unlike(self, outputs, inputs) -> SimWork:
        """An all-gather of parts of unlike sizes: each is broadcast, as by NCCL."""

        def data():
            for parts, own in zip(outputs, inputs, strict=True):
                numbers_of(parts[self.group_rank]).copy_(numbers_of(own).view(parts[self.group_rank].shape))
                for root, part in enumerate(parts):
                    with Contiguous(part) as value:
                        self._gloo.broadcast([value], gloo_options("Broadcast", rootRank=root)).wait()

        return self._collective("all_gather", flattened(outputs), outputs, data, sizes_of(outputs), shapes=False)

    def all_gather_single(self, output, input, opts=None) -> SimWork:
        return self.all_gather_single_coalesced([output], [input], opts, "_all_gather_base")

    def all_gather_single_coalesced(
        self, outputs, inputs, opts=None, recorded="all_gather_into_tensor_coalesced"
    ) -> SimWork:
        for output, input in zip(outputs, inputs, strict=True):
            self._check.whole(output, input, "all_gather's output")

        def data():
            for output, input in zip(outputs, inputs, strict=True):
                own = numbers_of(input)
                fill_from(output, self._gathered(own))

        return self._collective("all_gather", inputs, outputs, data, times=self.ranks, recorded=recorded)

    def reduce_scatter(self, outputs, inputs, opts=None) -> SimWork:
        for output, parts in zip(outputs, inputs, strict=True):
            self._check.parts(parts, output, "reduce_scatter's list of inputs", self.group_rank)
        op = reduction_of(opts, outputs)

        def data():
            for output, parts in zip(outputs, inputs, strict=True):
                whole = self._reduced(torch.cat([numbers_of(part).reshape(-1) for part in parts]), op)
                own = whole.split([part.numel() for part in parts])[self.group_rank]
                numbers_of(output).copy_(own.view(output.shape))

        unlike = "" if all(map(are_alike, inputs)) else f", {sizes_of(inputs)}"
        return self._collective("reduce_scatter", flattened(inputs), outputs, data, f"{op}{unlike}")

    def reduce_scatter_single(self, output, input, opts=None) -> SimWork:
        return self.reduce_scatter_single_coalesced([output], [input], opts, "_reduce_scatter_base")

    def reduce_scatter_single_coalesced(
        self, outputs, inputs, opts=None, recorded="reduce_scatter_tensor_coalesced"
    ) -> SimWork:
        for output, input in zip(outputs, inputs, strict=True):
            self._check.whole(input, output, "reduce_scatter's input")
        op = reduction_of(opts, outputs)

        def data():
            for output, input in zip(outputs, inputs, strict=True):
                whole = self._reduced(numbers_of(input), op)
                fill_from(output, [whole.reshape(self.ranks, -1)[self.group_rank]])

        return self._collective("reduce_scatter", inputs, outputs, data, str(op), recorded=recorded)

    _allgather_base, _reduce_scatter_base = all_gather_single, reduce_scatter_single

    def gather(self, outputs, inputs, opts) -> SimWork:
        self._check.root(opts, "gather")
        for parts in outputs if self.group_rank == opts.rootRank else ():
            self._check.parts(parts, inputs[0], "gather's list of outputs")

        def data():
            got = self._gathered(numbers_of(inputs[0]))
            if self.group_rank == opts.rootRank:
                for part, value in zip(outputs[0], got, strict=True):
                    numbers_of(part).copy_(value)

        details = f"to {opts.rootRank}"
        return self._collective("all_gather", inputs, outputs, data, details, times=self.ranks, called="gather")

    def scatter(self, outputs, inputs, opts) -> SimWork:
        self._check.root(opts, "scatter")
        for parts in inputs if self.group_rank == opts.rootRank else ():
            self._check.parts(parts, outputs[0], "scatter's list of inputs")

        def data():
            with Contiguous(outputs[0]) as value:
                parts = [[numbers_of(part).contiguous() for part in inputs[0]]] if inputs and inputs[0] else []
                self._gloo.scatter([value], parts, gloo_options("Scatter", rootRank=opts.rootRank)).wait()

        details = f"from {opts.rootRank}"
        return self._collective("all_gather", outputs, outputs, data, details, times=self.ranks, called="scatter")

    def all_to_all_single(self, output, input, output_sizes, input_sizes, opts=None) -> SimWork:
        sizes = [self._check.splits(output, output_sizes, "output"), self._check.splits(input, input_sizes, "input")]

        def data():
            self._require_pairs(*sizes)
            with Contiguous(output) as value:
                self._gloo.all_to_all_single(value, numbers_of(input).contiguous(), output_sizes, input_sizes).wait()

        # What each rank sends to which may differ, so shapes are no sign of a mistake.
        wanted, given = bytes_of_rows(output, sizes[0]), bytes_of_rows(input, sizes[1])
        seconds = self._group.pairs_seconds(sent=given, received=wanted)
        return self._collective("all_to_all", [input], [output], data, dtype_name(input), shapes=False, seconds=seconds)

    alltoall_base = all_to_all_single

    def alltoall(self, outputs, inputs, opts=None) -> SimWork:
        for parts, which in ((outputs, "outputs"), (inputs, "inputs")):
            require(len(parts) == self.ranks, f"all_to_all's list of {which} has {len(parts)} tensors", EACH)

        def data():
            sizes = [[value.numel() for value in map(numbers_of, parts)] for parts in (outputs, inputs)]
            self._require_pairs(*sizes)
            flat = torch.cat([numbers_of(part).reshape(-1) for part in inputs])
            got = flat.new_empty(sum(sizes[0]))
            self._gloo.all_to_all_single(got, flat, *sizes).wait()
            for part, value in zip(outputs, got.split(sizes[0]), strict=True):
                numbers_of(part).copy_(value.view_as(numbers_of(part)))

        wanted, given = ([bytes_in([part]) for part in parts] for parts in (outputs, inputs))
        seconds = self._group.pairs_seconds(sent=given, received=wanted)
        return self._collective(
            "all_to_all", inputs, outputs, data, dtype_name(inputs[0]), shapes=False, seconds=seconds
        )

    def barrier(self, opts=None) -> SimWork:
        """All ranks' hosts and GPUs wait for the last."""
        gpu, what, recorded = machine.gpu(None), "barrier()", "all_reduce_barrier"
        fault = self._group.fault()
        if isinstance(fault, SkippedCollective):
            return SimWork([], None, 0.0)
        if isinstance(fault, OtherCollective):
            what, recorded = "all_reduce(float32[1], SUM)", "all_reduce"
        launched = machine.clock.pay(gpu.profile.launch, gpu.index)
        ready = max(launched, gpu.free, gpu.link.free, gpu.network.free)
        entry = self._group.flight.enter(recorded, ONE_NUMBER, ONE_NUMBER, launched)
        entry.started = ready
        entry.completed = end = self._group.agreed(ready, what, None) + self._group.fabric.seconds("all_reduce", 4)
        self._group.take(gpu, self._group.ways, "barrier", ready, end, 0, launched, self._group.among)
        machine.wait_until(end)
        return SimWork([], gpu, end)

    # --- from one rank to another -------------------------------------------------------------------------------

    def send(self, tensors, dst: int, tag: int = 0) -> SimWork:
        self._check.other(dst, "send to", self._window is not None)
        return self._keep(self._messages.send(tensors, dst, tag))

    def recv(self, tensors, src: int, tag: int = 0) -> SimWork:
        self._check.other(src, "receive from", self._window is not None)
        return self._keep(self._messages.recv(tensors, src, tag))

    def recv_anysource(self, tensors, tag: int = 0):
        raise RuntimeError(
            f"{NAME} has no receive from any rank: who comes first is chance, and so would be all times after it. "
            "Name the sender: dist.recv(tensor, src=...)."
        )

    # --- what all collectives have in common ----------------------------------------------------------------------

    def _collective(
        self, name, inputs, outputs, data, details="", *, times=1, shapes=True, called="", recorded="", seconds=None
    ) -> SimWork:
        """Launch a collective. `data` moves the numbers; `times` the bytes of `inputs` are the size of the whole.

        It takes `seconds`, or what `name` takes; `called` is what its caller knows it by, `recorded` what the flight
        recorder does, where that is something else.
        """
        gpu, size = gpu_of([*inputs, *flattened(outputs)]), bytes_in(inputs) * times
        called = called or name
        fault = self._group.fault()
        if isinstance(fault, SkippedCollective):
            return self._keep(SimWork(outputs, None, 0.0))
        if isinstance(fault, OtherCollective):
            called, details = ("all_reduce", "SUM") if name == "broadcast" else ("broadcast", "from 0")
            shapes, recorded = True, called
        what = f"{called}({shapes_of(inputs) if shapes else ''}{', ' * bool(details and shapes)}{details})"
        seconds = self._group.fabric.seconds(name, size) if seconds is None else seconds
        tensors = flattened(inputs), flattened(outputs)
        end = self._group.run(CollectiveCall(gpu, called, what, seconds, size, recorded or called, *tensors))
        if are_known(inputs, outputs):
            with nullcontext() if self._group.alone else self._group.waiting.moving(what):
                data()
        note_arrivals(outputs, end)
        return self._keep(SimWork(outputs, gpu, end))

    def _keep(self, work: SimWork) -> SimWork:
        if self._window is not None:
            self._window.append(work)
        return work

    def _gathered(self, own) -> list[torch.Tensor]:
        got = [torch.empty_like(own, memory_format=torch.contiguous_format) for _ in range(self.ranks)]
        self._gloo.allgather([got], [own.detach().contiguous()]).wait()
        return got

    def _reduced(self, value, op: Reduction) -> torch.Tensor:
        whole = value.detach().contiguous().clone()
        reduce_values(self._gloo, self.ranks, whole, op)
        return whole

    def _reduce_all(self, tensors, op: Reduction) -> None:
        for tensor in tensors:
            with Contiguous(tensor) as value:
                reduce_values(self._gloo, self.ranks, value, op)

    def _require_pairs(self, wanted: list[int], given: list[int]) -> None:
        """What one rank gives another is what that one wants. Raises Mismatch on all ranks where it is not."""
        mine = torch.tensor([wanted, given])
        both = torch.stack(self._gathered(mine))
        for source, target in torch.nonzero(both[:, 1] != both[:, 0].T).tolist():
            raise Mismatch(
                f"in all_to_all, rank {self.members[source]} has {both[source, 1, target]} for rank "
                f"{self.members[target]}, which expects {both[target, 0, source]}: place {target} of the former's "
                f"input sizes has to be place {source} of the latter's output sizes."
            )
