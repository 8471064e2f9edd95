"""A cluster: GPUs in nodes, what links them, and which links a group of ranks has to cross."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from simgpu import Fabric, Settings
from simgpu.profiles import GPUS, LINKS, NETWORKS, GpuProfile, LinkProfile, find
from utils.common.errors import Problem


def timing(gpu: GpuProfile) -> GpuProfile:
    """A profile as a key of what takes time: no time depends on how much memory there is."""
    return replace(gpu, memory=1.0)


@dataclass(frozen=True, init=False)
class Cluster:
    """So many GPUs of a kind, `per_node` in a node. Profiles are those of simgpu or their names."""

    gpu: GpuProfile
    gpus: int
    per_node: int
    link: LinkProfile
    network: LinkProfile

    def __init__(
        self,
        gpu: GpuProfile | str = "H100",
        gpus: int = 8,
        per_node: int = 8,
        link: LinkProfile | str = "nvlink4",
        network: LinkProfile | str = "400G",
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
