"""Groups of gloo that are given tensors on simulated GPUs: as CUDA's, these travel by way of the host's memory."""

from __future__ import annotations

import torch

from .. import torch_private
from ..hardware import machine
from ..tensor import SimTensor, are_known
from .arguments import bytes_in, flattened, gpu_of, numbers_of
from .work import SimWork

c10d = torch_private.c10d
ON_GPUS = "broadcast, all_reduce, reduce, all_gather, gather, scatter, all_to_all_single, reduce_scatter_tensor"


class GlooOnGpus(torch_private.Backend):
    """What a group of gloo does with tensors on a GPU: copies into pinned memory, and back.

    It takes what PyTorch's gloo takes of CUDA's tensors. Its way between processes takes no simulated time, as it takes
    none for tensors of the CPU, and nobody's time waits for that of others: both are simccl's.
    """

    def __init__(self, gloo):
        super().__init__(gloo.rank(), gloo.size())
        self._gloo = gloo

    def getBackendName(self) -> str:
        return "gloo"

    supports_coalescing = supports_shrinking = supports_reconfigure = supports_window = False
    supports_time_estimate = _supports_time_estimate = supports_abort_hooks = False
    supports_splitting = True

    @property
    def options(self):
        return c10d.Backend.Options("gloo")

    def split(self, store, ranks, options) -> GlooOnGpus:
        """What a part of this group does; `ranks` are numbers in it."""
        place = list(ranks).index(self._gloo.rank())
        return GlooOnGpus(torch_private.gloo(c10d.PrefixStore("gpus", store), place, len(ranks), options._timeout))

    def supports_tensor_alloc(self, device) -> bool:
        return False

    # --- what gloo does with CUDA's tensors ----------------------------------------------------------------------

    def allreduce(self, tensors, opts=None) -> SimWork:
        return self._by_host("allreduce", [tensors], *_given(opts), inputs=tensors, outputs=tensors)

    def broadcast(self, tensors, opts) -> SimWork:
        inputs = tensors if opts.rootRank == self._gloo.rank() else []
        return self._by_host("broadcast", [tensors], opts, inputs=inputs, outputs=tensors)

    def reduce(self, tensors, opts) -> SimWork:
        return self._by_host("reduce", [tensors], opts, inputs=tensors, outputs=tensors)

    def allgather(self, outputs, inputs, opts=None) -> SimWork:
        return self._by_host("allgather", [outputs, inputs], *_given(opts), inputs=inputs, outputs=outputs)

    def all_gather_single(self, output, input, opts=None) -> SimWork:
        return self.allgather([list(output.chunk(self._gloo.size()))], [input])

    def gather(self, outputs, inputs, opts) -> SimWork:
        return self._by_host("gather", [outputs, inputs], opts, inputs=inputs, outputs=outputs)

    def scatter(self, outputs, inputs, opts) -> SimWork:
        return self._by_host("scatter", [outputs, inputs], opts, inputs=inputs, outputs=outputs)

    def reduce_scatter_single(self, output, input, opts=None) -> SimWork:
        return self._by_host("reduce_scatter_single", [output, input], opts, inputs=[input], outputs=[output])

    def all_to_all_single(self, output, input, output_sizes, input_sizes, opts=None) -> SimWork:
        sizes = output_sizes, input_sizes
        return self._by_host("all_to_all_single", [output, input], *sizes, inputs=[input], outputs=[output])

    _allgather_base, _reduce_scatter_base, alltoall_base = all_gather_single, reduce_scatter_single, all_to_all_single

    # --- what it does not ----------------------------------------------------------------------------------------

    def _refuse(self, *args, **kwargs):
        raise RuntimeError(
            f"gloo does this with tensors of the CPU only, as on CUDA; of a GPU's it takes {ON_GPUS}. Copy the tensor "
            'with .cpu() first, or use a group of the GPUs: new_group(backend="simccl"), in code for CUDA "nccl".'
        )

    send = recv = recv_anysource = alltoall = reduce_scatter = allreduce_coalesced = allgather_coalesced = _refuse
    all_gather_single_coalesced = reduce_scatter_single_coalesced = _refuse

    def _by_host(self, name: str, args: list, *options, inputs, outputs) -> SimWork:
        gpu = gpu_of([*flattened(inputs), *flattened(outputs)])
        on_host: dict[int, torch.Tensor] = {}

        def host(arg):
            if isinstance(arg, (list, tuple)):
                return [host(each) for each in arg]
            return on_host.setdefault(id(arg), _copy(arg)) if type(arg) is SimTensor else arg

        if inputs:
            size = bytes_in(flattened(inputs))
            machine.copy_with_host(gpu, size, to_host=True, pinned=True)
        if are_known(inputs, outputs):
            getattr(self._gloo, name)(*map(host, args), *options).wait()
            for output in flattened(outputs):
                numbers_of(output).copy_(on_host[id(output)])
        if outputs:
            size = bytes_in(flattened(outputs))
            machine.copy_with_host(gpu, size, to_host=False, pinned=True, wait=False)
        return SimWork(outputs, None, 0.0)


def _copy(tensor: SimTensor) -> torch.Tensor:
    return numbers_of(tensor).contiguous().clone()


def _given(opts) -> tuple:
    return () if opts is None else (opts,)
