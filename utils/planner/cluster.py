"""A cluster: GPUs in nodes, what links them, and which links a group of ranks has to cross."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from simgpu import Fabric, Settings
from simgpu.profiles import GPUS, LINKS, NETWORKS, GpuProfile, LinkProfile, find
from utils.common.errors import Problem


def timing(gpu: GpuProfile) -> GpuProfile:
    """A profile as a key of what takes time: no time depends on how much memory there is."""
    return replace(gpu, memory=1.0)


# What CPU-Adam takes for ten billion weights on the two Xeons of a DGX-2: Ren et al., ZeRO-Offload, arXiv 2101.06840,
# table 4. PyTorch's own Adam takes 14.76 s there. AdamW(fused=True) is newer, and reads memory once as CPU-Adam does.
CPU_ADAM = 2.57 / 10e9
_PCIE5, _PCIE4 = (9, 0), (8, 0)  # compute capabilities from which on GPUs have these, by NVIDIA's datasheets


@dataclass(frozen=True, init=False)
class HostProfile:
    """What a node has beside its GPUs: a link to each, seconds of its CPUs for AdamW of a weight, bytes of memory.

    The seconds are assumed, not simulated: a node's CPUs train the shares of all its GPUs, and the time goes with their
    number, because it is bound by memory bandwidth. ValueError, in one line, for numbers that are not above 0.
    """

    link: LinkProfile
    adam: float
    memory: float

    def __init__(self, link: LinkProfile | str = "pcie5", adam: float = CPU_ADAM, memory: float = inf):
        object.__setattr__(self, "link", find("link", LINKS, link))
        for name, number in (("adam", adam), ("memory", memory)):
            if isinstance(number, bool) or not isinstance(number, (int, float)) or not number > 0:
                raise ValueError(f"HostProfile: {name}={number!r}: give a number above 0")
            object.__setattr__(self, name, number)


def usual_host(gpu: GpuProfile) -> HostProfile:
    """PCI Express of the GPU's generation, and memory without end."""
    return HostProfile("pcie5" if gpu.capability >= _PCIE5 else "pcie4" if gpu.capability >= _PCIE4 else "pcie3")


@dataclass(frozen=True, init=False)
class Cluster:
    """So many GPUs of a kind, `per_node` in a node. Profiles are those of simgpu or their names.

    `host` is what each node has beside them, of which only layouts with `offload` make use; `usual_host` if None.
    """

    gpu: GpuProfile
    gpus: int
    per_node: int
    link: LinkProfile
    network: LinkProfile
    host: HostProfile

    def __init__(
        self,
        gpu: GpuProfile | str = "H100",
        gpus: int = 8,
        per_node: int = 8,
        link: LinkProfile | str = "nvlink4",
        network: LinkProfile | str = "400G",
        host: HostProfile | None = None,
    ):
        numbers = {"gpus": gpus, "per_node": per_node}
        for name, number in numbers.items():
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise Problem(f"{name}={number!r}: give a whole number, 1 or more")
        if gpus > per_node and gpus % per_node:
            raise Problem(f"{gpus} GPUs do not fill nodes of {per_node}: give a multiple of {per_node}")
        try:
            profiles = {
                "gpu": find("gpu", GPUS, gpu),
                "link": find("link", LINKS, link),
                "network": find("network", NETWORKS, network),
            }
        except ValueError as error:
            raise Problem(str(error)) from None
        if host is not None and not isinstance(host, HostProfile):
            raise Problem(f"host={host!r}: give a HostProfile, such as HostProfile(link='pcie4'), or leave it out")
        profiles["host"] = host or usual_host(profiles["gpu"])
        for name, value in (numbers | profiles).items():
            object.__setattr__(self, name, value)

    @cached_property
    def nodes(self) -> int:
        return max(1, self.gpus // self.per_node)

    def settings(self, ranks: int | None = None, **others) -> Settings:
        """The simulated GPUs that are the first `ranks` of this cluster, all if None, for `simgpu.enable`.

        `others` are fields of `simgpu.Settings` that a cluster says nothing of, such as `compute`, or that differ.
        """
        ranks = ranks or self.gpus
        links = {"link": self.link, "network": self.network, "nodes": max(1, ranks // self.per_node)}
        links["host_link"] = self.host.link
        return Settings(**{"count": ranks, "gpu": self.gpu, "memory": int(self.gpu.memory), **links, **others})

    def group(self, ranks: int, stride: int) -> Fabric:
        """The group of so many ranks whose numbers are `stride` apart, which begins at rank 0."""
        nodes = len({rank * stride // self.per_node for rank in range(ranks)})
        return Fabric(ranks, nodes, self.link, self.network, self.gpu.capability)

    def way(self, stride: int) -> LinkProfile:
        """What links two ranks that are so far apart."""
        return self.link if stride < self.per_node else self.network

    def gpu_of_a_stage(self, pipeline: int, tensor: int) -> GpuProfile:
        """The GPU, with what a launch takes where a pipeline's stages are in different nodes (`LinkProfile.late`)."""
        if self.way(self.gpus // pipeline) is not self.network:
            return self.gpu
        return replace(self.gpu, launch=self.gpu.launch + self.network.late * tensor)

    def __str__(self) -> str:
        where = f"{self.nodes} nodes of {self.per_node}" if self.nodes > 1 else "one node"
        return f"{self.gpus} {self.gpu.name} in {where}, {self.link.name}, {self.network.name}"
